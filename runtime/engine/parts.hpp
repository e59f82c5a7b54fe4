// runtime/engine/parts.hpp: the parts of a pipeline as the engine calls them: active instances with their tables.
// assembly/assembly.hpp loads and owns them.
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
  std::shared_ptr<const void> owner = nullptr;  // keeps the instance alive; null: the caller does
};

// One of the pipeline's proposers.
struct ActiveProposer : ProposerPart {
  std::string plugin;                                  // "ngram": the name that requests use, unique in a pipeline
  std::uint64_t capabilities = 0;                      // MORTISE_CAP_*
  std::int32_t max_tokens = 0;                         // its option: drafts per sequence and step; of a tree: per path
  std::int32_t max_paths = 1;                          // its option `branches`: paths of a draft tree
  const mortise_sequences_table* sequences = nullptr;  // null: it cannot say how many it keeps state for
  std::shared_ptr<const void> owner = nullptr;         // as ActiveScheduler's
};

// The parts that decide what runs. Only the engine calls them.
struct Policies {
  ActiveScheduler scheduler;
  std::vector<ActiveProposer> proposers;  // in the order in which they are asked; may be empty
};

// All parts of a pipeline. The ShardParts are those of rank 0, which stand for all: parts of one kind are exchanged on
// all ranks together.
struct Parts : ShardParts, Policies {
  std::vector<ShardParts> further_ranks;  // from rank 1 on; empty without tensor parallelism

  std::vector<ShardParts> shards() const {  // by rank
    std::vector<ShardParts> all = {*this};
    all.insert(all.end(), further_ranks.begin(), further_ranks.end());
    return all;
  }
};

// The sizes of a pipeline. Changing them is a swap (swap.hpp). A value.
struct EngineLimits : ExecutionLimits {
  // Drafts are verified by rejection sampling. Plans may not cut drafts then, because the number of drafts influences
  // the tokens.
  bool rejection = false;
  bool adaptive_lengths = false;  // of drafts; false: each sequence gets as many as it can use
  bool prefix_cache = true;       // kv_cache.prefix_cache

  bool operator==(const EngineLimits&) const = default;
  bool same_sizes(const EngineLimits& other) const {
    EngineLimits same_drafts = other;
    same_drafts.max_drafts = max_drafts;
    return *this == same_drafts;
  }
};

}  // namespace mortise
