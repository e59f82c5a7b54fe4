// plugins/devices/cpu/ops.hpp: the functions of this device's table.
#pragma once

#include "mortise/ext/rejection.h"

namespace mortise::cpu {

#include "devices/table.inc"

}  // namespace mortise::cpu
