// runtime/execution/step_graphs.hpp: the model's forward as captured graphs, one a bucket of batches: steps that
// decode, verify drafts or begin with short prompts are padded up to a bucket and replayed, everything else runs
// operation by operation. A bucket's first step runs
// so too (what it allocates and tunes cannot be captured), its second is captured. Bits are the same either way: rows
// depend on themselves alone.
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

class StepGraphs {
 public:
  static constexpr std::int32_t kMaxRows = 512;  // of a bucket: beyond that launches cost little beside the work

  StepGraphs(const ShardParts& parts, const ExecutionLimits& limits) : parts_(parts), limits_(limits) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // The bucket that a batch of these runs is to be padded to; nothing: it is not to be captured.
  std::optional<BatchBucket> bucket_of(std::span<const RowRun> runs) const;
  // Runs the model over the step's batch, which has the bucket's sizes if there is one; returns its hidden rows.
  // REQUIRES: attention has planned the step.
  mortise_tensor forward(const mortise_step& step, const std::optional<BatchBucket>& bucket);

  // The attention is another: what was captured is not replayed any more, and is destroyed one graph a step, because
  // all of them at once would take as long as several steps.
  void retire();

  std::uint64_t num_replays() const { return num_replays_; }
  // Whether the last forward is what a step of its bucket takes every time. The first one runs operation by operation
  // and the second one captures, which takes many times as long.
  bool is_typical() const { return is_typical_; }

 private:
  struct Graph {
    const mortise_graph_table* table;  // that it was captured with
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
  std::vector<Graph> retired_;
  std::uint64_t num_replays_ = 0;
  bool is_typical_ = true;
};

}  // namespace mortise
