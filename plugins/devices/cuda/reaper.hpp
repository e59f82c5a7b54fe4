// reaper.hpp: destroys in the background what no step needs any more. Freeing memory waits for all queued work, and
// destroying a graph takes the driver 0.2 ms, so a part that goes would hold up the steps of those that stay. While the
// driver destroys, launches wait, too, so there is a pause between two items.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>

namespace mortise::cuda {

class Reaper {
 public:
  explicit Reaper(int ordinal);  // of the GPU
  ~Reaper();                     // waits for all of it
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // Thread-safe, and return at once.
  void free(void* memory) {
    add({memory, [](void* what) { cudaFree(what); }});
  }
  void free_host(void* memory) {
    add({memory, [](void* what) { cudaFreeHost(what); }});
  }
  void destroy(cudaGraphExec_t graph) {
    add({graph, [](void* what) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(what)); }});
  }

  // Waits until all that was given so far is destroyed: its memory is free then.
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
  std::deque<Item> items_;  // its front is being destroyed
  int num_waiting_ = 0;     // in finish()
  std::jthread thread_;     // the last member: it uses the others
};

}  // namespace mortise::cuda
