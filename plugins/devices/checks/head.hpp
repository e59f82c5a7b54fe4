// head.hpp: what head_reduce and sample are given, as far as every device checks it alike: which arrays go together,
// and what fits the vocabulary. Each throws Failure(INVALID_ARGUMENT). Arrays are not read: they are device memory.
#pragma once

#include <cstdint>
#include <string>

#include "mortise/device.h"
#include "mortise/plugin.hpp"

namespace mortise {

// Logits of `columns` columns, "f32 [2, 4096]" in words; slices begin at multiples of `slice`.
void check_head_reduce(const mortise_head_reduce_args& args, std::int64_t columns, const std::string& logits_text,
                       std::int32_t slice);

void check_sample(const mortise_sample_args& args, std::int64_t columns, const std::string& logits_text);

}  // namespace mortise
