// component.hpp: the two components of this room; each plugin is a file that names one.
#pragma once

#include "mortise/plugin.h"

namespace mortise::span_cpu {

extern const mortise_component kPaged;    // attention/paged_cpu
extern const mortise_component kCascade;  // attention/cascade_cpu

}  // namespace mortise::span_cpu
