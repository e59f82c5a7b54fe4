// runtime/conformance/attention_scene.hpp: sequences that one attention serves on its device, step by step, as the
// engine would ask it to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "conformance/attention_shape.hpp"
#include "conformance/device_buffer.hpp"
#include "conformance/guarded_memory.hpp"
#include "conformance/part.hpp"
#include "mortise/attention.h"

namespace mortise::conformance {

// The output of a row: all layers one after the other, [num_layers, num_heads, head_dim] in the model's type.
using OutputRow = std::vector<std::uint8_t>;
// By sequence and position.
using OutputRows = std::map<std::pair<std::size_t, std::int32_t>, OutputRow>;

// Throws CaseFailed at the first bit of `found` that differs from the same row of `expected`, which has all of them.
// `what` begins the text: "in a batch".
void expect_same_rows(const AttentionShape& shape, const OutputRows& expected, const OutputRows& found,
                      const char* what);

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

// How a step is put to the attention. None of it may change a bit.
struct StepStyle {
  std::int32_t padding = 0;          // rows, and as many sequences of length 0
  bool is_bucket = false;            // MORTISE_BATCH_BUCKET: numbers are upper bounds
  bool is_wide = false;              // q, k and v are columns of one matrix
  std::vector<SceneGroup> groups{};  // only for an attention with MORTISE_CAP_CASCADE
};

// Sequences in the KV cache of one attention. Invariant: the tables of two sequences share a block only where fork()
// said so, and block 0 belongs to padding alone. Used by one thread. Throws CaseFailed where the attention breaks a
// rule.
class AttentionScene {
 public:
  // `part` is bound to memory of `num_blocks` blocks and active. Both references outlive the scene.
  AttentionScene(const PartInstance& device, const Part& part, AttentionShape shape, std::int32_t num_blocks);

  // Hands out blocks in this order from now on; without it, in ascending order.
  void set_free_blocks(std::vector<std::int32_t> blocks) { free_blocks_ = std::move(blocks); }
  // A new sequence with these tokens and blocks for them. Returns its index.
  std::size_t add(std::vector<std::int32_t> tokens);
  // A new sequence that shares the first `num_blocks` blocks, and their tokens, and goes on with `tokens`.
  std::size_t fork(std::size_t sequence, std::int32_t num_blocks, std::span<const std::int32_t> tokens);
  // Ends the sequence; its blocks are given to later ones first.
  void end(std::size_t sequence);
  // Gives the sequence copies of its blocks, made by copy_blocks, in place of the blocks themselves.
  void copy_blocks(std::size_t sequence);

  // Runs the rows through append and run of all layers, and returns their outputs.
  OutputRows step(const std::vector<SceneRun>& runs, const StepStyle& style = {}) {
    return step_by(part_, runs, style);
  }
  // The same by another instance that is bound to the same memory.
  OutputRows step_by(const Part& part, const std::vector<SceneRun>& runs, const StepStyle& style = {});
  // All rows of a sequence in one step.
  OutputRows prefill(std::size_t sequence, const StepStyle& style = {});

  const AttentionShape& shape() const { return shape_; }
  const std::vector<std::int32_t>& tokens(std::size_t sequence) const { return sequences_[sequence].tokens; }
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
  mortise_batch batch_of(const Arrays& arrays, const std::vector<SceneRun>& runs, const StepStyle& style,
                         ReadOnlyCopies& host, std::vector<std::unique_ptr<DeviceBuffer>>& device);
  template <typename T>
  const T* on_device(const T* copy, const std::vector<T>& values, std::vector<std::unique_ptr<DeviceBuffer>>& device);
  // One layer: returns its output, dense [rows, num_heads, head_dim].
  std::vector<std::uint8_t> run_layer(const Part& part, const mortise_step& step, std::int32_t layer,
                                      const std::vector<SceneRun>& runs, bool is_wide);
  // The numbers of a matrix of heads, rows of padding are 0.
  void fill_heads(std::vector<std::uint8_t>& matrix, std::size_t row_bytes, std::size_t offset, RowOf row,
                  std::int32_t layer, const std::vector<SceneRun>& runs) const;
  std::int32_t take_block();

  const PartInstance& device_;
  const Part& part_;
  const AttentionShape shape_;
  bool has_host_memory_ = false;
  std::vector<std::int32_t> free_blocks_;  // the next one is at the front
  std::vector<Sequence> sequences_;
  std::uint64_t step_id_ = 0;
  DeviceBuffer cos_, sin_;
  std::shared_ptr<mortise_weight> q_norm_, k_norm_;
};

}  // namespace mortise::conformance
