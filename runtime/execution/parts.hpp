// runtime/execution/parts.hpp: the parts that run a step, as they are called: device, model, attention with its KV
// memory. Who loads and opens them is assembly/ and runner/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/active_part.hpp"
#include "mortise/attention.h"
#include "mortise/ext/graph.h"
#include "mortise/model.h"

namespace mortise {

using DevicePart = ActivePart<mortise_device, mortise_device_table>;
using ModelPart = ActivePart<mortise_model, mortise_model_table>;
using AttentionPart = ActivePart<mortise_attention, mortise_attention_table>;

// The parts of one shard: one device, with the part of the model and of the KV memory that lies on it. Without tensor
// parallelism there is one shard, and it is everything.
struct ShardParts {
  DevicePart device;
  ModelPart model;
  AttentionPart attention;
  // Of the device, if it and the parts that run in a step can be captured; else null.
  const mortise_graph_table* graphs = nullptr;
  bool prefix_groups = false;    // batches tell them: the attention has MORTISE_CAP_CASCADE
  std::int32_t vocab_size = 0;   // columns of the model's head
  std::int32_t hidden_size = 0;  // of the model; 0: not known
  // Keeps the instances and the KV memory alive for as long as somebody may call them. Null: somebody else does.
  std::shared_ptr<const void> owner;

  // Why no step can run any more: a part that every step needs has failed. [any thread]
  std::optional<std::string> failure() const {
    for (const PartHealth* health : {device.health.get(), model.health.get(), attention.health.get()}) {
      if (health->failed()) return health->reason();
    }
    return std::nullopt;
  }
};

// The active parts at one moment. Never changed: a replaced part is another snapshot, of a higher generation. Any
// thread may hold one and read it.
struct PartsSnapshot {
  std::vector<ShardParts> shards;  // by rank; at least one
  std::uint64_t generation = 0;
};

}  // namespace mortise
