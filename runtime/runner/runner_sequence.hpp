// runtime/runner/runner_sequence.hpp: the state of a sequence in a runner: its tokens, and how many of them have KV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kv/prefix_tree.hpp"

namespace mortise {

// A sequence of a runner, and its KV. A value of the thread that runs steps. Invariant: num_committed and num_computed
// are at most num_tokens().
struct RunnerSequence {
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();

  // The sequence's id in batches. Unique, whereas a caller may reuse an id after the end of its sequence.
  std::uint64_t batch_id = 0;  // 0: it was in no batch yet
  std::vector<std::int32_t> tokens;
  std::int32_t num_committed = 0;  // leading tokens from updates; the tokens after them are drafts
  // Position of the first token for which the model has no embedding.
  std::int32_t first_unknown = kNone;

  std::vector<BlockId> blocks;
  std::int32_t num_computed = 0;   // tokens with KV
  std::int32_t num_published = 0;  // leading blocks that are in the prefix tree
  bool publishes = true;           // false: a block could not enter the tree, so no later block can
  std::uint64_t last_step = 0;     // the runner's last step with this sequence
  std::size_t step_index = 0;      // index in the arrays of that step

  std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens.size()); }
};

}  // namespace mortise
