// plugins/devices/cpu/int_weights.hpp: prepares quantised weights from float matrices or from a quantised checkpoint.
#pragma once

#include <memory>

#include "devices/cpu/cpu_device.hpp"

namespace mortise::cpu {

// Prepares a source with `bits`; the memory is in the device's arena. Throws Failure(INVALID_ARGUMENT).
std::unique_ptr<mortise_weight> prepare_int_weight(mortise_device& device, const mortise_weight_source& source);

}  // namespace mortise::cpu
