// runtime/execution/parts.hpp: the parts that run a step, as Execution calls them: device, model, attention with its KV
// memory. assembly/ and runner/ load and open them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/active_part.hpp"
#include "mortise/attention.h"
#include "mortise/ext/graph.h"
#include "mortise/ext/rejection.h"
#include "mortise/model.h"

namespace mortise {

using DevicePart = ActivePart<mortise_device, mortise_device_table>;
using ModelPart = ActivePart<mortise_model, mortise_model_table>;
using AttentionPart = ActivePart<mortise_attention, mortise_attention_table>;

// The parts of one shard: one device with its share of the model and of the KV memory. Without tensor parallelism there
// is one shard with everything. A value: copies share the instances.
struct ShardParts {
  DevicePart device;
  ModelPart model;
  AttentionPart attention;
  // The device's graph functions, if all parts of a step can be captured; else null.
  const mortise_graph_table* graphs = nullptr;
  const mortise_rejection_table* rejection = nullptr;  // the device's; null: it has none
  bool prefix_groups = false;                          // batches list them: the attention has MORTISE_CAP_CASCADE
  std::int32_t vocab_size = 0;                         // columns of the model's head
  std::int32_t hidden_size = 0;                        // of the model; 0: unknown
  // Keeps the instances and the KV memory alive. Null: the caller does.
  std::shared_ptr<const void> owner;

  // Why no step can run any more: a part that every step needs has failed. [any thread]
  std::optional<std::string> failure() const {
    for (const PartHealth* health : {device.health.get(), model.health.get(), attention.health.get()}) {
      if (health->failed()) return health->reason();
    }
    return std::nullopt;
  }
};

// The active parts at one moment. Immutable: replacing a part makes another snapshot with a higher generation. Any
// thread may hold and read one.
struct PartsSnapshot {
  std::vector<ShardParts> shards;  // by rank; at least one
  std::uint64_t generation = 0;
};

}  // namespace mortise
