// plugins/devices/cuda/int_weights.hpp: prepares quantised weights, from float matrices or from a quantised checkpoint,
// in the order of kernels/cuda/int_weight.hpp. The GPU quantises floats.
#pragma once

#include <memory>

#include "devices/cuda/cuda_device.hpp"

namespace mortise::cuda {

// Prepares a source with `bits` and waits for completion. Needs another n * k bytes of device memory during the call.
// Throws Failure.
std::unique_ptr<mortise_weight> prepare_int_weight(mortise_device& device, const mortise_weight_source& source);

}  // namespace mortise::cuda
