// cublaslt_loading.hpp: loads the kernels of cuBLASLt beside other work. Its first product with a type of output loads
// a part of the library, which takes 90 and 60 ms on an H100: as long as the weights of a small model, and no time at
// all beside those of a large one.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <thread>

#include "devices/cuda/cublaslt.hpp"

namespace mortise::cuda {

class CublasLtLoading {
 public:
  // On the current device. Both outlive it.
  CublasLtLoading(const CublasLt& lt, cublasLtHandle_t handle);
  bool is_done() const { return done_; }
  void wait();  // before the handle is used for anything else

 private:
  std::atomic<bool> done_ = false;
  std::jthread thread_;
};

}  // namespace mortise::cuda
