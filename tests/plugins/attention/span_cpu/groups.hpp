// groups.hpp: the prefix groups of a batch by their definition in mortise/batch.h, slowly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "mortise/batch.h"

namespace mortise::test {

struct Groups {
  std::vector<int32_t> offsets{0}, members, shared, parents;

  void tell(mortise_batch& batch) const {
    batch.num_groups = static_cast<int32_t>(parents.size());
    batch.group_offsets = offsets.data();
    batch.group_seqs = members.data();
    batch.group_shared_tokens = shared.data();
    batch.group_parents = parents.data();
  }
};

// All runs that begin with the same blocks, wherever one block more makes it fewer of them. From the batch's
// block_table, seq_lens and cu_seqlens_q.
inline Groups groups_of(const mortise_batch& batch) {
  // Whole blocks that all rows of a run see.
  const auto seen_blocks = [&](int32_t seq) {
    const int32_t rows = batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq];
    return batch.seq_lens[seq] == 0 ? 0 : (batch.seq_lens[seq] - rows + 1) / batch.block_size;
  };
  std::vector<int32_t> all;
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) all.push_back(seq);
  std::map<std::vector<int32_t>, int32_t> found;  // members, depth
  std::vector<std::vector<int32_t>> alike = {all};
  for (int32_t depth = 1; !alike.empty(); ++depth) {
    std::vector<std::vector<int32_t>> next;
    for (const std::vector<int32_t>& together : alike) {
      std::map<int32_t, std::vector<int32_t>> by_block;
      for (const int32_t seq : together) {
        if (seen_blocks(seq) < depth) continue;
        by_block[batch.block_table[static_cast<std::ptrdiff_t>(seq) * batch.max_blocks + depth - 1]].push_back(seq);
      }
      for (const auto& [block, seqs] : by_block) {
        if (seqs.size() < 2) continue;
        found[seqs] = depth;
        next.push_back(seqs);
      }
    }
    alike = std::move(next);
  }
  std::vector<std::pair<int32_t, std::vector<int32_t>>> by_depth;
  for (const auto& [seqs, depth] : found) by_depth.emplace_back(depth, seqs);
  std::sort(by_depth.begin(), by_depth.end());
  Groups groups;
  for (std::size_t g = 0; g < by_depth.size(); ++g) {
    const auto& [depth, seqs] = by_depth[g];
    int32_t parent = -1;  // the last, and so the deepest, that has all of them
    for (std::size_t other = 0; other < g; ++other) {
      const auto& other_seqs = by_depth[other].second;
      if (std::includes(other_seqs.begin(), other_seqs.end(), seqs.begin(), seqs.end()))
        parent = static_cast<int32_t>(other);
    }
    groups.members.insert(groups.members.end(), seqs.begin(), seqs.end());
    groups.offsets.push_back(static_cast<int32_t>(groups.members.size()));
    groups.shared.push_back(depth * batch.block_size);
    groups.parents.push_back(parent);
  }
  return groups;
}

}  // namespace mortise::test
