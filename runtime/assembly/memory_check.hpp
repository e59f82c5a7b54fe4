// runtime/assembly/memory_check.hpp: whether a KV cache fits beside the weights.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/description.hpp"

namespace mortise {

// Throws an Error that names the pipeline's line when `memory`, all that the device `name` has, is less than KV cache
// and weights: more than there is would be filled until the system ends the process.
void check_memory(const PipelineDescription& description, std::uint64_t kv_bytes, std::uint64_t weight_bytes,
                  std::uint64_t memory, const std::string& name);

// Of `blocks`, those that can be of use to sequences of `max_model_len` tokens: without the prefix cache, more than all
// sequences at full length can use would never be touched.
std::int32_t useful_blocks(const PipelineDescription& description, std::int32_t max_model_len, std::uint64_t blocks);

}  // namespace mortise
