// groups.hpp: the prefix groups of a batch (mortise/batch.h) from its block tables, found by comparing everything.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "mortise/batch.h"

namespace mortise::test {

class Groups {
 public:
  // REQUIRES: all of the batch but its groups. Both outlive the batch's use.
  explicit Groups(mortise_batch& batch) : batch_(batch) {
    std::vector<int32_t> members;
    for (int32_t seq = 0; seq < batch.num_seqs; ++seq) {
      if (batch.seq_lens[seq] > 0) members.push_back(seq);
    }
    add_children(members, 0, -1);
    batch.num_groups = static_cast<int32_t>(parents_.size());
    batch.group_offsets = offsets_.data();
    batch.group_seqs = seqs_.data();
    batch.group_shared_tokens = tokens_.data();
    batch.group_parents = parents_.data();
  }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

 private:
  const int32_t* blocks(int32_t seq) const { return batch_.block_table + seq * batch_.max_blocks; }
  // Whole blocks of which every row of the sequence sees all tokens.
  int32_t seen(int32_t seq) const {
    const int32_t rows = batch_.cu_seqlens_q[seq + 1] - batch_.cu_seqlens_q[seq];
    return (batch_.seq_lens[seq] - rows + 1) / batch_.block_size;
  }

  // Members are equal in their first `equal` blocks.
  void add_children(const std::vector<int32_t>& members, int32_t equal, int32_t parent) {
    std::map<int32_t, std::vector<int32_t>> by_block;
    for (const int32_t seq : members) {
      if (seen(seq) > equal) by_block[blocks(seq)[equal]].push_back(seq);
    }
    for (const auto& [block, children] : by_block) {
      if (children.size() > 1) add_group(children, equal, parent);
    }
  }

  void add_group(const std::vector<int32_t>& members, int32_t equal, int32_t parent) {
    int32_t end = seen(members.front());
    for (const int32_t seq : members) {
      end = std::min(end, seen(seq));
      const auto differ = std::mismatch(blocks(seq), blocks(seq) + end, blocks(members.front()));
      end = std::max(equal, static_cast<int32_t>(differ.first - blocks(seq)));
    }
    const auto group = static_cast<int32_t>(parents_.size());
    seqs_.insert(seqs_.end(), members.begin(), members.end());
    offsets_.push_back(static_cast<int32_t>(seqs_.size()));
    tokens_.push_back(end * batch_.block_size);
    parents_.push_back(parent);
    add_children(members, end, group);
  }

  mortise_batch& batch_;
  std::vector<int32_t> offsets_ = {0}, seqs_, tokens_, parents_;
};

}  // namespace mortise::test
