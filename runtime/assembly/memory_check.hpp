// runtime/assembly/memory_check.hpp: checks whether a KV cache fits beside the weights.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/description.hpp"

namespace mortise {

// For messages.
inline double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// Throws an Error that names the pipeline's line if KV cache and weights together exceed `memory`, the whole memory of
// the device `name`. Without this check they would be filled until the system kills the process.
void check_memory(const PipelineDescription& description, std::uint64_t kv_bytes, std::uint64_t weight_bytes,
                  std::uint64_t memory, const std::string& name);

// The number of blocks worth allocating, at most `blocks`. Without the prefix cache it is at most the number that all
// sequences need at their full length of `max_model_len`; further blocks would never be used.
std::int32_t useful_blocks(const PipelineDescription& description, std::int32_t max_model_len, std::uint64_t blocks);

}  // namespace mortise
