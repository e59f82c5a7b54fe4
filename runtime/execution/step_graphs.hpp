// runtime/execution/step_graphs.hpp: runs the model's forward, as a captured graph if it can. There is one graph per
// bucket of batches. Steps that decode, verify drafts or begin with short prompts are padded to a bucket and replayed;
// all others run operation by operation. The first step of a bucket also runs operation by operation, because its
// allocations and tuning cannot be captured; the second step is captured. The bits are the same either way, because
// rows do not depend on each other. Only the thread that runs steps calls it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "execution/batch_bucket.hpp"
#include "execution/limits.hpp"
#include "execution/parts.hpp"
#include "execution/step_work.hpp"

namespace mortise {

// Invariant: every graph was captured with the current attention and its bucket's array addresses. Used only by the
// thread that runs steps.
class StepGraphs {
 public:
  static constexpr std::int32_t kMaxRows = 512;  // of a bucket: with more rows, launches cost little beside the work

  StepGraphs(const ShardParts& parts, const ExecutionLimits& limits) : parts_(parts), limits_(limits) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // The bucket to which a batch of these runs is padded; nullopt: the batch is not captured.
  std::optional<BatchBucket> bucket_of(std::span<const RowRun> runs) const;
  // Runs the model over the step's batch, which is padded to `bucket` if there is one; returns its hidden rows.
  // REQUIRES: attention has planned the step.
  mortise_tensor forward(const mortise_step& step, const std::optional<BatchBucket>& bucket);

  // Called when the attention has changed: destroys the captured graphs.
  void clear();

  std::uint64_t num_replays() const { return num_replays_; }
  // Returns whether the time of the last forward pass is typical for its bucket. The first pass of a bucket runs
  // operation by operation, and the second one captures, which takes many times as long.
  bool is_typical() const { return is_typical_; }

 private:
  struct Graph {
    const mortise_graph_table* table;  // of the device that captured it
    mortise_graph* captured;
    mortise_tensor hidden;
  };

  mortise_tensor run(const mortise_step& step) const;
  void destroy(const Graph& graph) const;
  const Graph* capture(const mortise_step& step, const BatchBucket& bucket);

  const ShardParts& parts_;
  const ExecutionLimits& limits_;
  bool usable_ = true;  // false after a capture has failed
  std::set<BatchBucket> ran_;
  std::map<BatchBucket, Graph> graphs_;
  std::uint64_t num_replays_ = 0;
  bool is_typical_ = true;
};

}  // namespace mortise
