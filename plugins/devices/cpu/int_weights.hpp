// int_weights.hpp: quantised weights, from float matrices or from a checkpoint that comes quantised.
#pragma once

#include <memory>

#include "devices/cpu/cpu_device.hpp"

namespace mortise::cpu {

// The weight of a source with `bits`, its memory in the device's arena. Throws Failure(INVALID_ARGUMENT).
std::unique_ptr<mortise_weight> prepare_int_weight(mortise_device& device, const mortise_weight_source& source);

}  // namespace mortise::cpu
