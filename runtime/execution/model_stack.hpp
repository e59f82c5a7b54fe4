// runtime/execution/model_stack.hpp: a checkpoint that runs on a device: its files, the model plugin that computes it,
// the attention with the memory of its KV cache. A pipeline has one for its target, and one for each runner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "execution/parts.hpp"
#include "loader/part_instance.hpp"
#include "mortise/ext/weight_cache.h"
#include "pipeline/description.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// A checkpoint's folder, opened.
struct ModelFiles {
  static ModelFiles open(const std::filesystem::path& folder);

  Checkpoint checkpoint;
  Tokenizer tokenizer;
};

// How a checkpoint is to be run.
struct StackParts {
  const PartDescription& model;
  const PartDescription& attention;
  KvDtype kv_dtype;
  std::int32_t block_size;
  bool populate_kv = false;  // takes all KV memory at once, beside what follows, instead of as it is used
};

class ModelStack {
 public:
  // Creates model and attention, the first of each that takes the checkpoint. `device` is active. `query` names the
  // device. Throws an Error that names the part, file or option at fault.
  ModelStack(std::shared_ptr<const PartInstance> device, ModelFiles files, const StackParts& wanted,
             mortise_query query);
  ~ModelStack();
  ModelStack(const ModelStack&) = delete;
  ModelStack& operator=(const ModelStack&) = delete;

  // In this order, once each; all throw Errors.
  void load_weights();
  void activate_model(const mortise_activate_args& sizes);
  // Gives the attention memory for so many blocks, and one more for padding where steps can be captured as graphs.
  void bind_kv(std::int32_t num_blocks);
  void activate_attention(const mortise_activate_args& sizes);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const mortise_model_dims& dims() const { return dims_; }
  // Tables of device, model and attention; graphs where all of them can be captured. Without an owner.
  const ShardParts& parts() const { return parts_; }
  const PartInstance& model() const { return *model_; }
  const PartInstance& attention() const { return *attention_; }
  std::int32_t block_size() const { return block_size_; }
  std::int32_t kv_dtype() const { return kv_dtype_; }
  std::uint64_t kv_bytes_per_block() const { return kv_bytes_per_block_; }  // of all layers
  std::uint64_t weight_bytes() const;                                       // on the device
  // Rows of one call of the head that keep the device busy and are small beside the weights.
  std::int32_t max_logit_rows(std::int32_t max_batched_tokens) const;

 private:
  void open_model(const PartDescription& model, mortise_query& query);
  void open_attention(const PartDescription& attention, mortise_query& query);
  void check_windows(const Component& attention) const;
  const mortise_graph_table* graph_table() const;
  const mortise_weight_cache_table* open_weight_cache();

  const std::shared_ptr<const PartInstance> device_;
  Checkpoint checkpoint_;
  Tokenizer tokenizer_;
  std::optional<PartInstance> model_;
  mortise_model_dims dims_{};
  const std::int32_t block_size_;
  const bool populate_kv_;
  std::int32_t kv_dtype_ = 0;
  std::uint64_t kv_bytes_per_block_ = 0;
  struct KvMemory;
  std::unique_ptr<KvMemory> kv_;  // outlives the attention
  std::optional<PartInstance> attention_;
  ShardParts parts_;
};

// What an Execution runs: the parts of the stack, which live as long as somebody has them. REQUIRES: all are active.
ShardParts parts_of(std::shared_ptr<const ModelStack> stack);

// The id of the arithmetic that the device computes a type in; null: it does not.
const char* numerics_id_of(const DevicePart& device, std::int32_t dtype);

// Bytes of the device's memory: all of it (the largest number when it cannot say), and what is free.
std::uint64_t device_memory(const DevicePart& device);
std::uint64_t free_device_memory(const DevicePart& device);

// A hash of the texts of all tokens: equal for tokenizers that write the same tokens with the same ids.
std::uint64_t vocabulary_hash(const Tokenizer& tokenizer);

// The KV cache's type: "auto" is the model's.
std::int32_t kv_dtype(KvDtype wanted, const mortise_model_dims& dims);
// "bf16", "f32", "int8".
const char* dtype_name(std::int32_t dtype);
// "bf16", "int8", "int4 in groups of 64".
std::string weight_format(const mortise_model_dims& dims);

}  // namespace mortise
