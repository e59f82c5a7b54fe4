// runtime/engine/assembly.hpp: from a pipeline's description to parts that run: opens the device, the checkpoint and
// its tokenizer, loads the model, gives the attention its KV memory, and activates everything, in the order that undoes
// itself when a step fails.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "engine/engine.hpp"
#include "engine/parts.hpp"
#include "loader/part_instance.hpp"
#include "mortise/ext/weight_cache.h"
#include "pipeline/description.hpp"
#include "sampling/params.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// What a model plugin's `path` names, opened.
struct ModelFiles {
  static ModelFiles open(const std::filesystem::path& folder);

  Checkpoint checkpoint;
  Tokenizer tokenizer;
};

class Assembly {
 public:
  // Throws an Error that names the part, file or option at fault. With `files` they are the model, whatever its `path`
  // says.
  explicit Assembly(const PipelineDescription& description, std::optional<ModelFiles> files = std::nullopt);
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  const Parts& parts() const { return parts_; }
  const EngineLimits& limits() const { return limits_; }
  const mortise_model_dims& dims() const { return dims_; }
  std::uint64_t kv_bytes_per_block() const { return kv_bytes_per_block_; }  // of all layers
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  ModelInfo model_info() const;

  // What decides the bits: device class, attention, model plugin, weights, KV type, parallel size.
  std::string numerics_id() const;
  // A hash of it, as answers carry it: same fingerprint and seed, same tokens.
  std::string system_fingerprint() const;
  // A hash of the texts of all tokens: equal for tokenizers that write the same tokens with the same ids.
  std::string vocabulary() const;
  // What generation_config.json recommends.
  SamplingParams default_sampling() const;

 private:
  void open_device(const PipelineDescription& description);
  void take_files(ModelFiles files);
  void open_model(const PipelineDescription& description, mortise_query& query);
  void open_attention(const PipelineDescription& description, mortise_query& query);
  bool fills_device(const PipelineDescription& description) const;
  std::int32_t useful_blocks(const PipelineDescription& description, std::uint64_t blocks) const;
  void bind_attention(const PipelineDescription& description);
  mortise_activate_args sizes() const;
  mortise_activate_args batch_sizes() const;
  const mortise_graph_table* graph_table() const;
  std::uint64_t weight_bytes() const;   // on the device
  std::uint64_t device_memory() const;  // bytes in all
  std::uint64_t free_memory() const;
  void open_policies(const PipelineDescription& description, const mortise_query& query);
  void open_proposer(const PartDescription& description, const mortise_query& query, const CreateContext& context);
  const mortise_weight_cache_table* open_weight_cache();
  void load_weights();
  void activate(const PipelineDescription& description);

  // In order of creation; destroyed in reverse.
  std::optional<PartInstance> device_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<PartInstance> model_;
  mortise_model_dims dims_{};
  std::int32_t kv_dtype_ = 0;
  std::uint64_t kv_bytes_per_block_ = 0;
  struct DeviceMemory;
  std::unique_ptr<DeviceMemory> kv_;
  std::optional<PartInstance> attention_;
  std::optional<PartInstance> scheduler_;
  std::deque<PartInstance> proposers_;
  EngineLimits limits_;
  std::string rejection_id_;  // of numerics_id(): the proposers, if they have a say
  Parts parts_;
};

}  // namespace mortise
