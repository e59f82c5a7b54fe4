// runtime/execution/execution.hpp: runs steps. Owns the active parts of each shard (device, model, attention with its
// KV memory) and everything whose size depends on them. The engine and the runners of draft models give it work in host
// memory and get tokens and log probabilities back. Neither calls a device, a model or an attention itself.
//
// launch() queues a step and collect() waits for it, so the host can work in between. On a device whose streams are
// synchronous (the CPU) launch() computes.
//
// With several shards each has a thread of its own, which runs its part of every step (rank_group.hpp). An error of one
// ends the step on all.
//
// One thread, the thread that runs steps, calls all functions that are not tagged [any thread].
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

// When steps of all sizes are tried, so that a device can choose its algorithms for them (Shard::try_next_size).
enum class WarmUp {
  kAtOnce,    // before the first step, so that no request waits for them
  kWhenIdle,  // by calls of try_next_size(), so that the first token comes earlier. A device that must first search
              // for its algorithms, which takes seconds, tries all sizes at once.
};

// The shards of a pipeline or of a runner. Invariant: all shards have parts of the same generation, and a step is
// either between launch() and collect() on all of them or on none. Used by the thread that runs steps, except functions
// tagged [any thread].
class Execution {
 public:
  // `shards` by rank, at least one. All parts are active, with models and KV memory of the same sizes. `generation` of
  // the parts is above that of every Execution that this one replaces. `between`, if set, is called between two passes
  // of the warm-up; the whole warm-up then runs in this constructor. Throws a PartError, and what `between` throws.
  Execution(std::vector<ShardParts> shards, const ExecutionLimits& limits, std::uint64_t generation = 0,
            const std::function<void()>& between = {}, WarmUp warm_up = WarmUp::kAtOnce);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Returns the serving parts. A caller that holds the snapshot keeps it and everything that it points to valid.
  // [any thread]
  std::shared_ptr<const PartsSnapshot> snapshot() const { return snapshot_.load(); }
  // Returns why no step can run any more: a part that every step needs has failed. nullopt: none has. [any thread]
  std::optional<std::string> failure() const;
  // Replaces all parts. If the new parts have the same KV memory, its contents stay. If it throws a PartError, nothing
  // has changed. REQUIRES: no step is between launch and collect; `generation` is above that of the old parts.
  void replace(std::vector<ShardParts> shards, std::uint64_t generation);
  // From now on steps that verify up to `count` drafts per sequence are captured as graphs.
  void set_max_drafts(std::int32_t count) { limits_.max_drafts = count; }
  // Frees everything whose size depends on the parts, captured graphs too, because the parts' buffers are about to
  // move. No step can run until replace() has succeeded.
  void release() { shards_.reset(); }

  // With WarmUp::kWhenIdle: tries a step of one more size. Throws a PartError. REQUIRES: no step is between launch and
  // collect; has_untried_sizes().
  bool has_untried_sizes() const { return shards_ != nullptr && first().num_untried_sizes() > 0; }
  void try_next_size();

  // Runs a step's forward, then queues the sampling and scoring of its rows. Calls `evaluating`, if set, between the
  // two. `beside`, if set, computes the same forward with a candidate and compares. If it throws a PartError, the step
  // is over. REQUIRES: the previous step was collected; with `beside` there is one shard.
  void launch(const StepWork& work, const std::function<void()>& evaluating = {}, SideRun* beside = nullptr);
  // True if launch() returns before the device has computed the step, so that host work before collect() costs no time.
  bool computes_behind() const { return first().computes_behind(); }
  // Waits for the launched step. Throws a PartError.
  StepResults collect();

  // Copies whole KV blocks, from[i] to to[i], before the next step runs. Throws a PartError.
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);

  // For proposers, from the first shard: a step without a batch, and the hidden rows of the last launch.
  mortise_step empty_step() const { return first().empty_step(); }
  const mortise_tensor& hidden() const { return first().hidden(); }

  std::int32_t num_rows() const { return first().num_real_tokens(); }  // of the last launch, without padding
  std::uint64_t num_graph_replays() const { return first().graphs().num_replays(); }
  // Whether the time of the last launch is typical for its shape: see StepGraphs.
  bool is_typical() const { return first().graphs().is_typical(); }

 private:
  // The shards of parts that serve together, by rank, and what connects them.
  struct Shards {
    RankGroup ranks;
    std::vector<std::unique_ptr<Shard>> list;
  };
  std::shared_ptr<Shards> make_shards(const PartsSnapshot& parts, const std::function<void()>& between) const;
  static void try_sizes(const std::shared_ptr<Shards>& shards, const std::function<void()>& between);
  // Calls `body` for all shards at once, each on the thread of its rank.
  template <typename Body>
  static void on_all(const std::shared_ptr<Shards>& shards, Body body);
  const Shard& first() const { return *shards_->list.front(); }

  ExecutionLimits limits_;
  const WarmUp warm_up_;
  Published<PartsSnapshot> snapshot_;
  std::shared_ptr<Shards> shards_;  // shared with the threads of the ranks, one of which may hang; null: released
};

}  // namespace mortise
