// runtime/conformance/scene_sequences.hpp: sequences that have blocks of a KV cache, and the batches of their steps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "conformance/device_buffer.hpp"
#include "conformance/guarded_memory.hpp"
#include "mortise/batch.h"

namespace mortise::conformance {

// Rows of one sequence in a step.
struct SceneRun {
  std::size_t sequence;
  std::int32_t first;  // position of the first row
  std::int32_t count;
};

// A prefix group of a step (mortise_batch.group_offsets).
struct SceneGroup {
  std::vector<std::int32_t> runs;
  std::int32_t shared_tokens;
  std::int32_t parent = -1;
};

// The form in which a step is given to a part. It may change no bit.
struct StepStyle {
  std::int32_t padding = 0;          // rows, and as many sequences of length 0
  bool is_bucket = false;            // MORTISE_BATCH_BUCKET: numbers are upper bounds
  bool has_packed_qkv = false;       // q, k and v are columns of one matrix; for attentions
  std::vector<SceneGroup> groups{};  // only for an attention with MORTISE_CAP_CASCADE
};

// The arrays of one step: read-only in guarded memory of the host, and on the device. They are gone with this object.
struct SceneBatch {
  ReadOnlyCopies host;
  std::vector<std::unique_ptr<DeviceBuffer>> device;
  const mortise_batch* batch = nullptr;
};

// Sequences and their block tables. Invariant: the tables of two sequences share a block only where fork() said so, and
// block 0 belongs to padding alone. Used by one thread.
class SceneSequences {
 public:
  // The device outlives this.
  SceneSequences(const PartInstance& device, std::int32_t block_size, std::int32_t num_blocks);

  // From now on hands out blocks in this order. Before the first call the order is ascending.
  void set_free_blocks(std::vector<std::int32_t> blocks) { free_blocks_ = std::move(blocks); }
  // Adds a sequence with these tokens, and blocks for them. Returns its index. Throws CaseFailed if there are no
  // blocks.
  std::size_t add(std::vector<std::int32_t> tokens);
  // Adds a sequence that shares the first `num_blocks` blocks, and their tokens, and goes on with `tokens`.
  std::size_t fork(std::size_t sequence, std::int32_t num_blocks, std::span<const std::int32_t> tokens);
  // Ends the sequence. The next sequences get its blocks first.
  void end(std::size_t sequence);
  // Gives the sequence other blocks, which are not written. Returns the blocks that it had.
  std::vector<std::int32_t> replace_blocks(std::size_t sequence);

  std::unique_ptr<SceneBatch> batch_of(const std::vector<SceneRun>& runs, const StepStyle& style);

  const std::vector<std::int32_t>& tokens(std::size_t sequence) const { return sequences_[sequence].tokens; }
  const std::vector<std::int32_t>& blocks(std::size_t sequence) const { return sequences_[sequence].blocks; }
  std::int32_t size(std::size_t sequence) const { return static_cast<std::int32_t>(tokens(sequence).size()); }

 private:
  struct Sequence {
    std::uint64_t id;
    std::vector<std::int32_t> tokens, blocks;
  };
  // The arrays of a batch, before they are copied to guarded memory and to the device.
  struct Arrays {
    std::vector<std::uint64_t> seq_ids;
    std::vector<std::int32_t> token_ids, positions, cu_seqlens_q{0}, seq_lens, block_table, logit_rows;
    std::vector<std::int64_t> slot_mapping;
    std::vector<std::int32_t> group_offsets{0}, group_seqs, group_shared_tokens, group_parents;
    std::int32_t max_blocks = 1, max_query_len = 1;
  };
  Arrays arrays_of(const std::vector<SceneRun>& runs, const StepStyle& style) const;
  void add_padding(Arrays& arrays, const StepStyle& style) const;
  void copy_arrays(const Arrays& arrays, SceneBatch& to, mortise_batch& batch) const;
  template <typename T>
  const T* on_device(const T* copy, const std::vector<T>& values, SceneBatch& to) const;
  std::int32_t take_block();

  const PartInstance& device_;
  const bool has_host_memory_;
  const std::int32_t block_size_;
  std::vector<std::int32_t> free_blocks_;  // the next one is at the front
  std::vector<Sequence> sequences_;
  std::uint64_t step_id_ = 0;
};

}  // namespace mortise::conformance
