// runtime/abi_check/step_rules.hpp: the rules of what several kinds of parts get in a step: dimensions, tensors,
// batches.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "abi_check/call.hpp"
#include "abi_check/device_state.hpp"
#include "mortise/model.h"

namespace mortise::abi_check {

// Returns what is wrong with the dimensions of a model; "" if nothing is.
std::string dims_problem(const mortise_model_dims& dims);
// Throws a Breach that blames the caller if `dims` is missing, too small, or has a dims_problem().
void check_dims(const Call& call, const mortise_model_dims* dims);

// Returns what is wrong with a tensor; "" if nothing is. `device`: the device whose memory it must be in; null: not
// known. `shape`: the sizes that it must have, -1 for any size. `dtype`: the type that it must have; 0: any.
std::string tensor_problem(const Device* device, const mortise_tensor* tensor, std::span<const std::int64_t> shape = {},
                           std::int32_t dtype = 0);
// Throws a Breach that blames the caller if the tensor has a tensor_problem().
void check_tensor(const Call& call, const Device* device, const char* name, const mortise_tensor* tensor,
                  std::span<const std::int64_t> shape = {}, std::int32_t dtype = 0);

// Throws a Breach that blames the caller, unless the step, its batch, its device and its attention are given.
void check_step(const Call& call, const mortise_step* step);

// The sizes that a batch must keep.
struct BatchSizes {
  std::int32_t max_num_seqs, max_batched_tokens, max_model_len, block_size, num_blocks;
};
// Throws a Breach that blames the caller, unless the arrays of the batch keep the rules of mortise/batch.h.
void check_batch(const Call& call, const mortise_batch& batch, const BatchSizes& sizes);

}  // namespace mortise::abi_check
