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
#include "conformance/scene_sequences.hpp"
#include "mortise/attention.h"

namespace mortise::conformance {

// The output of a row: all layers one after the other, [num_layers, num_heads, head_dim] in the model's type.
using OutputRow = std::vector<std::uint8_t>;
// Outputs by sequence and position.
using OutputRows = std::map<std::pair<std::size_t, std::int32_t>, OutputRow>;

// Throws CaseFailed at the first bit of `found` that differs from the same row of `expected`, which has all of them.
// `what` begins the text: "in a batch".
void expect_same_rows(const AttentionShape& shape, const OutputRows& expected, const OutputRows& found,
                      const char* what);

// Sequences in the KV cache of one attention. Used by one thread. Throws CaseFailed where the attention breaks a rule.
// Invariant: all parts that run a step of the scene are bound to the same memory.
class AttentionScene {
 public:
  // `part` is bound to memory of `num_blocks` blocks and active. Both references outlive the scene.
  AttentionScene(const PartInstance& device, const Part& part, AttentionShape shape, std::int32_t num_blocks);

  // These do what the functions of SceneSequences do.
  void set_free_blocks(std::vector<std::int32_t> blocks) { sequences_.set_free_blocks(std::move(blocks)); }
  std::size_t add(std::vector<std::int32_t> tokens) { return sequences_.add(std::move(tokens)); }
  std::size_t fork(std::size_t sequence, std::int32_t num_blocks, std::span<const std::int32_t> tokens) {
    return sequences_.fork(sequence, num_blocks, tokens);
  }
  void end(std::size_t sequence) { sequences_.end(sequence); }
  // Gives the sequence copies of its blocks, made by copy_blocks, in place of the blocks themselves.
  void copy_blocks(std::size_t sequence);

  // Runs the rows through append and run of all layers, and returns their outputs.
  OutputRows step(const std::vector<SceneRun>& runs, const StepStyle& style = {}) {
    return step_with(part_, runs, style);
  }
  // Like step(), by `part`, another instance that is bound to the same memory.
  OutputRows step_with(const Part& part, const std::vector<SceneRun>& runs, const StepStyle& style = {});
  // Runs all rows of a sequence in one step.
  OutputRows prefill(std::size_t sequence, const StepStyle& style = {});

  const AttentionShape& shape() const { return shape_; }
  // Returns the device's numerics id for the type of the shape.
  std::string device_numerics() const;
  const std::vector<std::int32_t>& tokens(std::size_t sequence) const { return sequences_.tokens(sequence); }
  std::int32_t size(std::size_t sequence) const { return sequences_.size(sequence); }

 private:
  // Runs one layer and returns its output, dense [rows, num_heads, head_dim].
  std::vector<std::uint8_t> run_layer(const Part& part, const mortise_step& step, std::int32_t layer,
                                      const std::vector<SceneRun>& runs, bool has_packed_qkv);
  // Writes the numbers of all heads into a matrix. Padding rows get 0.
  void fill_heads(std::vector<std::uint8_t>& matrix, std::size_t row_bytes, std::size_t offset, Projection projection,
                  std::int32_t layer, const std::vector<SceneRun>& runs) const;

  const PartInstance& device_;
  const Part& part_;
  const AttentionShape shape_;
  SceneSequences sequences_;
  DeviceBuffer cos_, sin_;
  std::shared_ptr<mortise_weight> q_norm_, k_norm_;
};

}  // namespace mortise::conformance
