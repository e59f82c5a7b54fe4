// plugins/devices/cuda/ops.hpp: the functions of this device's table.
#pragma once

#include "mortise/device.h"
#include "mortise/ext/graph.h"
#include "mortise/ext/rejection.h"

namespace mortise::cuda {

#include "devices/table.inc"

extern const mortise_graph_table kGraphTable;  // streams.cpp

}  // namespace mortise::cuda
