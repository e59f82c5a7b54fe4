// runtime/conformance/model_scene.hpp: sequences that one model serves with the attention `paged` of the catalogue,
// step by step, as the engine would ask it to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "conformance/device_matrix.hpp"
#include "conformance/device_watch.hpp"
#include "conformance/scene_sequences.hpp"
#include "conformance/subject.hpp"
#include "mortise/model.h"

namespace mortise::conformance {

// What a model computes of one token.
struct ModelRow {
  std::vector<float> hidden, logits;
};
// Rows by sequence and position.
using ModelRows = std::map<std::pair<std::size_t, std::int32_t>, ModelRow>;

// Throws CaseFailed at the first bit of `found` that differs from the same row of `expected`, which has all of them.
void expect_same_rows(const ModelRows& expected, const ModelRows& found, const char* what);

// Returns the dims of an instance.
mortise_model_dims dims_of(const Part& model);

// Runs one model over sequences, step by step. Invariant: one attention and its KV memory, of kNumBlocks blocks, serve
// all sequences, until replace_attention. Used by one thread. Throws CaseFailed where the model breaks a rule, and an
// Error if there is no attention for it.
class ModelScene {
 public:
  static constexpr std::int32_t kNumBlocks = 128;

  // `model` is loaded and active, and outlives the scene. `watch` is the device that the steps name; NULL: the device
  // itself.
  ModelScene(Subject& subject, const Part& model, std::int32_t block_size = 16, const DeviceWatch* watch = nullptr);
  ~ModelScene();
  ModelScene(const ModelScene&) = delete;
  ModelScene& operator=(const ModelScene&) = delete;

  SceneSequences& sequences() { return sequences_; }
  const mortise_model_dims& dims() const { return dims_; }

  // Runs the rows through forward and head, and returns what they give.
  ModelRows step(const std::vector<SceneRun>& runs, const StepStyle& style = {}) {
    return step_with(model_, runs, style);
  }
  // The same by another instance with the same checkpoint.
  ModelRows step_with(const Part& model, const std::vector<SceneRun>& runs, const StepStyle& style = {});
  // Runs all rows of a sequence in one step.
  ModelRows prefill(std::size_t sequence) { return step({{sequence, 0, sequences_.size(sequence)}}); }
  // Computes columns of the head for these rows, as part of the step that ran last. The rows of both matrices are `gap`
  // numbers apart.
  Matrix head(const Part& model, const Matrix& hidden, std::int32_t begin, std::int32_t end, std::int64_t gap = 0);
  Matrix head(const Matrix& hidden, std::int32_t begin, std::int32_t end, std::int64_t gap = 0) {
    return head(model_, hidden, begin, end, gap);
  }
  // Returns the hidden rows that the last step gave, without those of padding.
  const Matrix& hidden() const { return hidden_; }
  // Opens another instance of the attention, which takes over the KV memory, and destroys the previous one.
  void replace_attention();

 private:
  std::unique_ptr<PartInstance> open_attention();
  void make_step(const std::vector<SceneRun>& runs, const StepStyle& style);
  void forward(const Part& model);
  Matrix read_hidden(const mortise_tensor& hidden) const;

  const PartInstance& device_;
  const Part& model_;
  const mortise_device_table* const device_table_;
  const mortise_model_dims dims_;
  const std::int32_t block_size_;
  std::unique_ptr<DeviceBuffer> kv_;
  std::unique_ptr<PartInstance> attention_;
  SceneSequences sequences_;
  std::unique_ptr<SceneBatch> batch_;  // of the last step, with its tables
  mortise_step step_{};
  std::uint64_t generation_ = 1;
  Matrix hidden_;
};

}  // namespace mortise::conformance
