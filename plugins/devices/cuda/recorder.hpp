// plugins/devices/cuda/recorder.hpp: while a step is captured as a graph, products and norms of few rows wait for the
// operations after them, so that those between two calls of attention become one kernel (kernels/cuda/layer_tail.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "kernels/cuda/layer_tail.hpp"

namespace mortise::cuda {

// The operations of one device that a capture has recorded and not launched yet, in order. Invariant: waiting_ is empty
// unless a capture is open. The thread that captures uses it; is_open() may be called by any thread.
class Recorder {
 public:
  // Once, by the device's activate: from then on captures record. Without it nothing waits.
  void enable() { enabled_ = true; }

  void begin(cudaStream_t stream);
  // Launches what waits. Returns the first error of any launch since begin.
  cudaError_t end();

  // Whether operations of this thread on the stream are recorded.
  bool is_open(cudaStream_t stream) const { return is_mine() && stream == stream_; }

  void add(const LinearArgs& product) { waiting_.emplace_back(product); }
  void add(const LinearArgs& product, Activation activation) { waiting_.emplace_back(Gated{product, activation}); }
  void add(const NormArgs& norm) { waiting_.emplace_back(norm); }

  // Launches what waits, if this thread captures: before any other use of the device. end() returns errors.
  void launch_waiting() {
    if (is_mine() && !waiting_.empty()) launch_all();
  }

 private:
  struct Gated {
    LinearArgs product;
    Activation activation;
  };
  using Operation = std::variant<LinearArgs, Gated, NormArgs>;

  bool is_mine() const { return open_.load(std::memory_order_acquire) && owner_ == std::this_thread::get_id(); }
  void launch_all();
  cudaError_t launch(const Operation& operation) const;
  // The tail of a layer that begins at an operation, and how many operations it has.
  struct Found {
    LayerTail tail;
    std::size_t count;
  };
  std::optional<Found> tail_at(std::size_t begin) const;

  bool enabled_ = false;
  std::atomic<bool> open_ = false;
  std::thread::id owner_;  // written while open_ is false
  cudaStream_t stream_ = nullptr;
  std::vector<Operation> waiting_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace mortise::cuda
