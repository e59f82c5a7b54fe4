// plugins/devices/checks/head.hpp: checks of the arguments of head_reduce and sample: logits, which arrays go together,
// and what fits the vocabulary. Each throws Failure(INVALID_ARGUMENT). Arrays are not read: they are device memory.
#pragma once

#include <cstdint>

#include "mortise/device.h"

namespace mortise {

// Slices of the vocabulary begin at multiples of `slice`.
void check_head_reduce(const mortise_head_reduce_args& args, std::int32_t slice);

void check_sample(const mortise_sample_args& args);

}  // namespace mortise
