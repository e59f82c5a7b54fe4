// plugins/devices/cpu/ops.hpp: the functions of this device's table.
#pragma once

#include "mortise/device.h"

namespace mortise::cpu {

#include "devices/table.inc"

}  // namespace mortise::cpu
