// plugins/devices/cuda/reaper.hpp: destroys unused memory and graphs in the background. Freeing memory waits for all
// queued work, and destroying a graph takes the driver 0.2 ms, so removing one part would delay the steps of the
// others. Launches also wait while the driver destroys something, so the thread pauses between two items.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>

namespace mortise::cuda {

// The queue and the thread that destroys. Invariant: each item is destroyed once, in order of arrival. Thread-safe.
class Reaper {
 public:
  explicit Reaper(int ordinal);  // of the GPU
  ~Reaper();                     // waits until everything is destroyed
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // These functions are thread-safe and return at once.
  void free(void* memory) {
    add({memory, [](void* what) { cudaFree(what); }});
  }
  void free_host(void* memory) {
    add({memory, [](void* what) { cudaFreeHost(what); }});
  }
  void destroy(cudaGraphExec_t graph) {
    add({graph, [](void* what) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(what)); }});
  }

  // Waits until everything passed in so far is destroyed and its memory is free.
  void finish();

 private:
  struct Item {
    void* what;
    void (*destroy)(void*);
  };
  void add(Item item);
  void run(const std::stop_token& stop);
  bool hurries() const { return num_waiting_ > 0; }

  const int ordinal_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> items_;  // the front item is being destroyed
  int num_waiting_ = 0;     // threads in finish()
  std::jthread thread_;     // the last member, because it uses the others
};

}  // namespace mortise::cuda
