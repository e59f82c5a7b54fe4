// sequences.hpp: a batch of runs by their numbers alone, with the prefixes that they share: what plans are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "groups.hpp"

namespace mortise::test {

struct Sequences {
  static constexpr int32_t kBlockSize = 16;

  // Runs of `rows` rows at the end of `length` tokens; length 0: padding.
  explicit Sequences(const std::vector<std::pair<int32_t, int32_t>>& rows_and_length) {
    for (const auto& [rows, length] : rows_and_length) add(rows, length);
  }

  // Adds a sequence that shares the whole blocks among the first `shared` tokens of sequence `other`.
  void add(int32_t rows, int32_t length, int32_t other = -1, int32_t shared = 0) {
    cu_seqlens_q.push_back(cu_seqlens_q.back() + rows);
    seq_lens.push_back(length);
    for (int32_t r = 0; r < rows; ++r) positions.push_back(length == 0 ? 0 : length - rows + r);
    std::vector<int32_t> own;
    if (other >= 0) {
      const auto from = blocks[static_cast<std::size_t>(other)].begin();
      own.assign(from, from + shared / kBlockSize);
    }
    while (static_cast<int32_t>(own.size()) * kBlockSize < length) own.push_back(++num_blocks_);
    blocks.push_back(std::move(own));
  }
  int32_t size() const { return static_cast<int32_t>(seq_lens.size()); }
  int32_t sequence_of(int32_t row) const {
    const auto end = std::upper_bound(cu_seqlens_q.begin(), cu_seqlens_q.end(), row);
    return static_cast<int32_t>(end - cu_seqlens_q.begin()) - 1;
  }

  // The batch of these sequences, with its prefix groups.
  mortise_batch batch() {
    mortise_batch batch{};
    batch.struct_size = sizeof batch;
    batch.num_seqs = size();
    batch.num_tokens = cu_seqlens_q.back();
    batch.block_size = kBlockSize;
    batch.max_blocks = 1;
    for (const auto& own : blocks) batch.max_blocks = std::max(batch.max_blocks, static_cast<int32_t>(own.size()));
    table.assign(blocks.size() * static_cast<std::size_t>(batch.max_blocks), -1);
    for (std::size_t seq = 0; seq < blocks.size(); ++seq) {
      const auto row = static_cast<std::ptrdiff_t>(seq) * batch.max_blocks;
      std::copy(blocks[seq].begin(), blocks[seq].end(), table.begin() + row);
    }
    batch.cu_seqlens_q = cu_seqlens_q.data();
    batch.seq_lens = seq_lens.data();
    batch.positions = positions.data();
    batch.block_table = table.data();
    groups = groups_of(batch);
    groups.tell(batch);
    return batch;
  }

  std::vector<int32_t> cu_seqlens_q{0}, seq_lens, positions, table;
  std::vector<std::vector<int32_t>> blocks;
  Groups groups;

 private:
  int32_t num_blocks_ = 0;
};

}  // namespace mortise::test
