// plugins/devices/checks/rows.hpp: checks of the arguments of the operations that treat rows one by one: which tensors
// are there, and whether they fit each other. Each throws Failure(INVALID_ARGUMENT). Arrays of ids and rows are not
// read: they are device memory. The vectors of norms are each device's own, so each device checks them itself.
#pragma once

#include <cstdint>

#include "devices/checks/weight.hpp"
#include "mortise/device.h"

namespace mortise {

void check_embed(const std::int32_t* ids, const WeightShape& weight, const mortise_tensor* out);
void check_norm(const mortise_norm_args& args, const char* where);
void check_gated_activation(std::int32_t activation, const mortise_tensor* x, const mortise_tensor* out);
void check_activation(std::int32_t activation, const mortise_tensor* x, const mortise_tensor* out);
void check_add(const mortise_tensor* a, const mortise_tensor* b, const mortise_tensor* out);
void check_gather_rows(const mortise_tensor* x, const std::int32_t* rows, const mortise_tensor* out);
void check_scatter_rows(const mortise_tensor* x, const std::int32_t* rows, const mortise_tensor* out);

}  // namespace mortise
