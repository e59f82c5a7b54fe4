// runtime/engine/draft_tree.hpp: a proposer's draft tree as its root-to-leaf paths. A step runs the first as the
// sequence's own rows and each further one as a fork of the sequence, in blocks of its own; the path of which most is
// accepted stays. So attention needs no mask for trees, and every row has the bits that it has alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/block_pool.hpp"

namespace mortise {

// A path beside the first one.
struct DraftFork {
  std::vector<std::int32_t> drafts;
  // Of the whole fork: the sequence's, then from the block of its last known token on some that only the fork has.
  std::vector<BlockId> blocks;
  std::size_t num_shared = 0;  // leading ones that are the sequence's
};

// The root-to-leaf paths of a tree whose node i is tokens[i] with the parent parents[i], -1 for the root; in the order
// of their leaves. Empty with the reason in `why` when a parent does not come before its child, or a path is longer
// than `max_depth`.
std::vector<std::vector<std::int32_t>> paths_of(std::span<const std::int32_t> tokens,
                                                std::span<const std::int32_t> parents, std::int32_t max_depth,
                                                std::string& why);

}  // namespace mortise
