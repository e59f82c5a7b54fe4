// runtime/engine/draft_tree.hpp: a proposer's draft tree as its root-to-leaf paths. A step runs the first path as the
// sequence's own rows, and each further path as a fork of the sequence with its own blocks. The sequence keeps the path
// with the most accepted drafts. So attention needs no tree mask, and every row has the same bits as alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/block_pool.hpp"

namespace mortise {

// One path of a draft tree, other than the first.
struct DraftFork {
  std::vector<std::int32_t> drafts;
  // Block table of the fork: shared blocks of the sequence, then, from the block of its last known token on, the fork's
  // own blocks.
  std::vector<BlockId> blocks;
  std::size_t num_shared = 0;  // leading blocks shared with the sequence
};

// Returns the root-to-leaf paths of a tree, in the order of their leaves. Node i is tokens[i], its parent is
// parents[i], and -1 is the root. If a parent does not come before its child, or a path is longer than `max_depth`,
// returns nothing and gives the reason in `why`.
std::vector<std::vector<std::int32_t>> paths_of(std::span<const std::int32_t> tokens,
                                                std::span<const std::int32_t> parents, std::int32_t max_depth,
                                                std::string& why);

}  // namespace mortise
