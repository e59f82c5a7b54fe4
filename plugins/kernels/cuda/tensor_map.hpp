// plugins/kernels/cuda/tensor_map.hpp: descriptions of matrices in global memory (CUtensorMap) for TMA, the
// tensor memory accelerator, which copies pieces of them to shared memory without threads.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace mortise::cuda {

// cuTensorMapEncodeTiled, looked up in the driver, since no library that we link has it. Null if the driver is too old.
using EncodeTiled = decltype(&cuTensorMapEncodeTiled);
EncodeTiled encode_tiled();

// The number of multiprocessors of the current device.
cudaError_t num_multiprocessors(int& count);

}  // namespace mortise::cuda
