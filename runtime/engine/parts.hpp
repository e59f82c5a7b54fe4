// runtime/engine/parts.hpp: the parts of a pipeline as the engine calls them: instances and their tables, active,
// borrowed. Who loads, owns and unloads them is engine/assembly.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/active_part.hpp"
#include "mortise/attention.h"
#include "mortise/ext/graph.h"
#include "mortise/ext/sequences.h"
#include "mortise/model.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"

namespace mortise {

using DevicePart = ActivePart<mortise_device, mortise_device_table>;
using ModelPart = ActivePart<mortise_model, mortise_model_table>;
using AttentionPart = ActivePart<mortise_attention, mortise_attention_table>;
using SchedulerPart = ActivePart<mortise_scheduler, mortise_scheduler_table>;
using ProposerPart = ActivePart<mortise_proposer, mortise_proposer_table>;

// One of the pipeline's proposers.
struct ActiveProposer : ProposerPart {
  std::string plugin;              // "ngram": what a request calls it by; no two of a pipeline are the same
  std::uint64_t capabilities = 0;  // MORTISE_CAP_*
  std::int32_t max_tokens = 0;     // drafts for a sequence and step, its option; of a tree: on a path
  std::int32_t max_paths = 1;      // of a draft tree: its option `branches`
  const mortise_sequences_table* sequences = nullptr;  // null: it does not say of how many it keeps something
};

struct Parts {
  DevicePart device;
  ModelPart model;
  AttentionPart attention;
  SchedulerPart scheduler;
  std::vector<ActiveProposer> proposers;  // in the order in which they are asked; may be none
  std::uint64_t generation = 0;           // grows when a part is replaced
  // Of the device, if it and the parts that run in a step can be captured; else null.
  const mortise_graph_table* graphs = nullptr;
  std::int32_t hidden_size = 0;  // of the model; 0: not known

  // Why nothing can run any more: a part that every step needs has failed. [any thread]
  std::optional<std::string> failure() const {
    for (const PartHealth* health : {device.health.get(), model.health.get(), attention.health.get()}) {
      if (health->failed()) return health->reason();
    }
    return std::nullopt;
  }
};

// The sizes of a pipeline, fixed while it runs.
struct EngineLimits {
  std::int32_t max_num_seqs = 0;
  std::int32_t max_batched_tokens = 0;
  std::int32_t max_logit_rows = 0;  // rows of one call of the head with the whole vocabulary
  std::int32_t max_model_len = 0;
  std::int32_t block_size = 0;
  std::int32_t num_blocks = 0;
  std::int32_t max_paths = 1;         // of a sequence's draft tree
  std::int32_t max_draft_tokens = 0;  // a sequence and step, of the proposer that drafts most; 0 without one
  // Drafts are verified by rejection sampling. A plan may not cut them then: how many there were decides what comes
  // out.
  bool rejection = false;
  bool adaptive_lengths = false;  // of drafts; else each sequence gets as many as it can use
  // Each draft is a run of its own in the batch: the attention has no multi-query rows, or a script wants it so.
  bool batch_expansion = false;
  bool prefix_cache = true;    // kv_cache.prefix_cache
  bool prefix_groups = false;  // batches tell them: the attention has MORTISE_CAP_CASCADE
  // A block beyond num_blocks that no sequence holds: rows that pad a batch write there. -1: there is none, and no
  // batch is padded.
  std::int32_t padding_block = -1;

  // Runs of rows in one batch, at most: what model and attention make room for.
  std::int32_t max_batch_runs() const {
    return batch_expansion ? max_batched_tokens
                           : std::min(max_num_seqs * max_paths, std::max(max_num_seqs, max_batched_tokens));
  }
  // With the sequences that the rows of padding belong to, of up to a draft's rows each: the parts make room for as
  // many. Without room for them beside a full batch, each number of drafts would be a size of its own (StepGraphs).
  static constexpr std::int32_t kMostPadding = 64;  // rows
  std::int32_t max_batch_seqs() const {
    return max_batch_runs() + (max_draft_tokens > 0 ? kMostPadding / (1 + max_draft_tokens) + 1 : 0);
  }
};

}  // namespace mortise
