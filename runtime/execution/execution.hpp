// runtime/execution/execution.hpp: runs steps. Owns one set of active parts (device, model, attention with its KV
// memory), one for each shard, and everything that is sized by them. The engine and the runners of draft models give it
// work in host memory and get tokens and log probabilities back; neither calls a device, a model or an attention
// itself.
//
// launch() queues a step and collect() waits for it, so the host can work in between. On a device whose streams are
// synchronous (the CPU) launch() computes.
//
// One thread calls all functions but snapshot(), which any thread may call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "execution/limits.hpp"
#include "execution/parts.hpp"
#include "execution/shard.hpp"
#include "execution/step_work.hpp"
#include "published.hpp"

namespace mortise {

class Execution {
 public:
  // `shards` by rank, at least one; all parts are active, of models and KV memory of the same sizes. `generation`: of
  // the parts, above that of every Execution whose place this one takes. Throws a PartError.
  Execution(std::vector<ShardParts> shards, const ExecutionLimits& limits, std::uint64_t generation = 0);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // The parts that run now. The snapshot and what it points to stay valid for whoever holds it. [any thread]
  std::shared_ptr<const PartsSnapshot> snapshot() const { return snapshot_.load(); }
  // Why no step can run any more, once a part that every step needs has failed. [any thread]
  std::optional<std::string> failure() const;
  // Puts other parts in the place of all. They find the KV memory as the old ones left it, if they have the same.
  // Throws a PartError: then nothing has changed. REQUIRES: no step is between launch and collect; `generation` is
  // above that of the parts before.
  void replace(std::vector<ShardParts> shards, std::uint64_t generation);
  // Steps that verify up to so many drafts a sequence are captured from now on.
  void set_max_draft_tokens(std::int32_t count) { limits_.max_draft_tokens = count; }
  // Gives back what is sized by the parts, captured graphs too, because their buffers are about to move. No step runs
  // until replace() has succeeded.
  void release() { shards_.clear(); }

  // Runs a step's forward and queues what is wanted of its rows. `evaluating`, if set, is called between the two.
  // `beside`, if set, computes the same forward and compares. Throws a PartError; the step is then over. REQUIRES: the
  // step before was collected; with `beside` there is one shard.
  void launch(const StepWork& work, const std::function<void()>& evaluating = {}, SideRun* beside = nullptr);
  // launch() returns before the device has computed the step: what the host does before collect() costs no time.
  bool computes_behind() const { return first().computes_behind(); }
  // Waits for the launched step. Throws a PartError.
  StepResults collect();

  // Copies whole KV blocks, from[i] to to[i], ahead of the next step. Throws a PartError.
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);

  // Of the first shard, for proposers: a step without a batch, and the hidden rows of the last launch.
  mortise_step empty_step() const { return first().empty_step(); }
  const mortise_tensor& hidden() const { return first().hidden(); }

  std::int32_t num_rows() const { return first().num_real_tokens(); }  // of the last launch, padding left out
  std::uint64_t num_graph_replays() const { return first().graphs().num_replays(); }
  // Whether the last launch took the time that each such step takes: see StepGraphs.
  bool is_typical() const { return first().graphs().is_typical(); }

 private:
  using Shards = std::vector<std::unique_ptr<Shard>>;
  Shards make_shards(const PartsSnapshot& parts) const;
  const Shard& first() const { return *shards_.front(); }

  ExecutionLimits limits_;
  Published<PartsSnapshot> snapshot_;
  Shards shards_;
};

}  // namespace mortise
