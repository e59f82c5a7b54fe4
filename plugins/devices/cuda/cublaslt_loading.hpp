// plugins/devices/cuda/cublaslt_loading.hpp: loads the kernels of cuBLASLt in the background. The first product with
// each type of output loads a part of the library, which takes 90 and 60 ms on an H100. Loading the weights of a small
// model takes as long; beside those of a large model this costs no extra time.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <thread>

#include "devices/cuda/cublaslt.hpp"

namespace mortise::cuda {

// Owns the loading thread; the destructor waits for it. Used by one thread. Invariant: once done_ is set, the thread
// makes no further call.
class CublasLtLoading {
 public:
  // Loads on the current device. Both arguments outlive this object.
  CublasLtLoading(const CublasLt& lt, cublasLtHandle_t handle);
  bool is_done() const { return done_; }
  void wait();  // call it before any other use of the handle

 private:
  std::atomic<bool> done_ = false;
  std::jthread thread_;
};

}  // namespace mortise::cuda
