// plugins/devices/checks/head.hpp: checks of the arguments of head_reduce, sample and verify_drafts: logits, which
// arrays go together, and what fits the vocabulary. Each throws Failure(INVALID_ARGUMENT). Arrays are not read: they
// are device memory.
#pragma once

#include <cstdint>

#include "mortise/ext/rejection.h"

namespace mortise {

// Slices of the vocabulary begin at multiples of `slice`.
void check_head_reduce(const mortise_head_reduce_args& args, std::int32_t slice);

// `where`: the operation that draws or verifies tokens.
void check_sample(const mortise_sample_args& args, const char* where);

// Returns args.rows with all fields of this header, checked like `args`.
mortise_sample_args checked_rows(const mortise_verify_drafts_args& args);

}  // namespace mortise
