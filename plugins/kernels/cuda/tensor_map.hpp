// tensor_map.hpp: descriptions of matrices in global memory for the copy engine.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace mortise::cuda {

// cuTensorMapEncodeTiled, a function of the driver, which no library has that we link. Null: a driver that is too old.
using EncodeTiled = decltype(&cuTensorMapEncodeTiled);
EncodeTiled encode_tiled();

// Of the current device.
cudaError_t num_multiprocessors(int& count);

}  // namespace mortise::cuda
