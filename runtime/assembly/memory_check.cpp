#include "assembly/memory_check.hpp"

#include <algorithm>

#include "error.hpp"

namespace mortise {

void check_memory(const PipelineDescription& description, std::uint64_t kv_bytes, std::uint64_t weight_bytes,
                  std::uint64_t memory, const std::string& name) {
  if (weight_bytes <= memory && kv_bytes <= memory - weight_bytes) return;
  fail(
      "{}: {:.1f} GiB of KV cache and {:.1f} GiB of weights do not fit the {:.1f} GiB of memory of {}; lower "
      "kv_cache.memory",
      description.where, gib(kv_bytes), gib(weight_bytes), gib(memory), name);
}

std::int32_t useful_blocks(const PipelineDescription& description, std::int32_t max_model_len, std::uint64_t blocks) {
  const auto most = static_cast<std::uint64_t>(std::min(description.kv_cache.most_blocks, INT32_MAX - 1));
  const auto affordable = static_cast<std::int64_t>(std::min(blocks, most));
  const std::int64_t blocks_per_sequence = (max_model_len + description.block_size - 1) / description.block_size;
  return static_cast<std::int32_t>(description.kv_cache.prefix_cache
                                       ? affordable
                                       : std::min(affordable, blocks_per_sequence * description.max_num_seqs));
}

}  // namespace mortise
