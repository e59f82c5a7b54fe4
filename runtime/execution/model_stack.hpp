// runtime/execution/model_stack.hpp: a checkpoint that runs on a device: its files, the model plugin that computes it,
// the attention with the memory of its KV cache. A pipeline has one for its target, and one for each runner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
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

// A checkpoint with the instance of the model plugin that computes it. Stacks share one when they differ in their
// attention alone, and a proposer keeps that of its target.
struct OpenModel {
  std::shared_ptr<const PartInstance> device;  // of the weights
  std::shared_ptr<const ModelFiles> files;
  PartInstance instance;
  mortise_model_dims dims{};     // attention and proposers borrow it
  std::uint64_t vocab_hash = 0;  // vocabulary_hash() of the tokenizer
};

// How a checkpoint is to be run.
struct StackParts {
  const PartDescription& model;
  const PartDescription& attention;
  KvDtype kv_dtype;
  std::int32_t block_size;
  bool populate_kv = false;  // takes all KV memory at once, beside what follows, instead of as it is used
  bool own_kv = false;       // another attention than the running one has KV memory of its own, whatever its layout
};

class ModelStack {
 public:
  // Creates model and attention, the first of each that takes the checkpoint. `device` is active. `query` names the
  // device. Throws an Error that names the part, file or option at fault.
  ModelStack(std::shared_ptr<const PartInstance> device, std::shared_ptr<const ModelFiles> files,
             const StackParts& wanted, mortise_query query);
  // The model and the weights of `running`, with another attention, or with that one and another cache. It may share
  // instances with `running`, of which the users of both say when they are called.
  ModelStack(const ModelStack& running, const StackParts& wanted, mortise_query query);
  ~ModelStack();
  ModelStack(const ModelStack&) = delete;
  ModelStack& operator=(const ModelStack&) = delete;

  // In this order, once each; all throw Errors. Parts that are shared with a running stack are loaded and active.
  void load_weights();
  void activate_model(const mortise_activate_args& sizes);
  // Gives the attention memory for so many blocks, and one more for padding where steps can be captured as graphs. With
  // the layout and the number of blocks of the stack that runs, it is that one's memory with what is in it. So it is on
  // a device with memory of its own, which would not hold two caches, where `give_up` is called before it is erased.
  void bind_kv(std::int32_t num_blocks, const std::function<void()>& give_up = {});
  void activate_attention(const mortise_activate_args& sizes);
  // Model and attention as far as they are shared and active: for other sizes in the place of `before`. Throws an
  // Error: then both have the sizes of before, or have failed.
  void resize(const mortise_activate_args& now, const mortise_activate_args& before);

  // Whether the attention finds in its memory what the running stack's has written, and reads its layout.
  bool has_running_kv() const { return has_running_kv_; }
  std::shared_ptr<const OpenModel> target() const { return model_; }
  const Checkpoint& checkpoint() const { return model_->files->checkpoint; }
  const Tokenizer& tokenizer() const { return model_->files->tokenizer; }
  const mortise_model_dims& dims() const { return model_->dims; }
  // Tables of device, model and attention; graphs where all of them can be captured. Without an owner.
  const ShardParts& parts() const { return parts_; }
  const PartInstance& model() const { return model_->instance; }
  const PartInstance& attention() const { return *attention_; }
  std::int32_t block_size() const { return block_size_; }
  std::int32_t kv_dtype() const { return kv_dtype_; }
  std::uint64_t kv_bytes_per_block() const { return layout_.bytes_per_block; }  // of all layers
  std::uint64_t kv_bytes() const;                                               // of the cache; 0 before bind_kv()
  std::uint64_t weight_bytes() const;                                           // on the device
  // Rows of one call of the head that keep the device busy and are small beside the weights.
  std::int32_t max_logit_rows(std::int32_t max_batched_tokens) const;

 private:
  void open_model();
  void choose_attention(const PartDescription& attention, mortise_query& query, const ModelStack* running);
  void open_attention();
  void finish_parts();
  void check_windows(const Component& attention) const;
  const mortise_graph_table* graph_table() const;
  const mortise_weight_cache_table* open_weight_cache();

  const std::shared_ptr<const PartInstance> device_;
  std::shared_ptr<OpenModel> model_;
  const std::int32_t block_size_;
  const bool populate_kv_;
  std::int32_t kv_dtype_ = 0;
  mortise_kv_layout layout_{};
  // Memory, layout and blocks of the stack that runs; without memory: none does.
  struct KvMemory;
  struct Cache {
    std::shared_ptr<KvMemory> memory;
    std::string layout_id;
    std::int32_t num_blocks = 0;
  };
  Cache running_, cache_;  // outlive the attention
  bool has_running_kv_ = false;
  PartChoice attention_choice_{};
  std::shared_ptr<PartInstance> attention_;
  ShardParts parts_;
};

// What an Execution runs: the parts of the stack, which live as long as somebody has them. REQUIRES: all are active.
ShardParts parts_of(std::shared_ptr<const ModelStack> stack);

// The id of the arithmetic that the device computes a type in; null: it does not.
const char* numerics_id_of(const DevicePart& device, std::int32_t dtype);

// Throws Error unless the device computes in the model's type. `model` is its name in the message.
void require_numerics(const DevicePart& device, const std::string& model, std::int32_t dtype);

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
