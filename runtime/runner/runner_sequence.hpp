// runtime/runner/runner_sequence.hpp: a sequence as a runner knows it: its tokens, and how many of them have KV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kv/prefix_tree.hpp"

namespace mortise {

struct RunnerSequence {
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();

  // What batches call it: never another sequence's, while a caller may use an id again after its end.
  std::uint64_t batch_id = 0;  // 0: it was in no batch yet
  std::vector<std::int32_t> tokens;
  std::int32_t num_committed = 0;  // leading tokens that an update brought; the rest are drafts
  // Position of the first token that the model has no embedding of.
  std::int32_t first_unknown = kNone;

  std::vector<BlockId> blocks;
  std::int32_t num_computed = 0;   // tokens with KV
  std::int32_t num_published = 0;  // leading blocks that the prefix tree knows
  bool publishes = true;           // false: its next block cannot enter the tree, so none after it can
  std::uint64_t last_step = 0;     // the runner's last step that wanted it
  std::size_t step_index = 0;      // in that step's arrays

  std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens.size()); }
};

}  // namespace mortise
