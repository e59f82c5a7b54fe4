// runtime/engine/parts.hpp: the parts of a pipeline as the engine calls them: instances and their tables, active,
// borrowed. Who loads, owns and unloads them is assembly/assembly.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "execution/limits.hpp"
#include "execution/parts.hpp"
#include "mortise/ext/sequences.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"

namespace mortise {

using SchedulerPart = ActivePart<mortise_scheduler, mortise_scheduler_table>;
using ProposerPart = ActivePart<mortise_proposer, mortise_proposer_table>;

struct ActiveScheduler : SchedulerPart {
  std::shared_ptr<const void> owner = nullptr;  // keeps the instance; null: somebody else does
};

// One of the pipeline's proposers.
struct ActiveProposer : ProposerPart {
  std::string plugin;              // "ngram": what a request calls it by; no two of a pipeline are the same
  std::uint64_t capabilities = 0;  // MORTISE_CAP_*
  std::int32_t max_tokens = 0;     // drafts for a sequence and step, its option; of a tree: on a path
  std::int32_t max_paths = 1;      // of a draft tree: its option `branches`
  const mortise_sequences_table* sequences = nullptr;  // null: it does not say of how many it keeps something
  std::shared_ptr<const void> owner = nullptr;         // as ActiveScheduler's
};

// The parts that decide what runs: they are called by the engine alone.
struct Policies {
  ActiveScheduler scheduler;
  std::vector<ActiveProposer> proposers;  // in the order in which they are asked; may be none
};

// All parts of a pipeline.
struct Parts : ShardParts, Policies {};

// The sizes of a pipeline. Another set of them is a swap (swap.hpp).
struct EngineLimits : ExecutionLimits {
  // Drafts are verified by rejection sampling. A plan may not cut them then: how many there were decides what comes
  // out.
  bool rejection = false;
  bool adaptive_lengths = false;  // of drafts; else each sequence gets as many as it can use
  bool prefix_cache = true;       // kv_cache.prefix_cache

  bool operator==(const EngineLimits&) const = default;
  bool same_sizes(const EngineLimits& other) const {
    EngineLimits same_drafts = other;
    same_drafts.max_draft_tokens = max_draft_tokens;
    return *this == same_drafts;
  }
};

}  // namespace mortise
