// int_weights.hpp: quantised weights, from float matrices or from a checkpoint that comes quantised, in the order of
// kernels/cuda/int_weight.hpp. Floats are quantised on the GPU.
#pragma once

#include <memory>

#include "devices/cuda/cuda_device.hpp"

namespace mortise::cuda {

// The weight of a source with `bits`. Waits until it is made. Beside it takes n * k bytes of device memory for the time
// of the call. Throws Failure.
std::unique_ptr<mortise_weight> prepare_int_weight(mortise_device& device, const mortise_weight_source& source);

}  // namespace mortise::cuda
