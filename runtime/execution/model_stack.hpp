// runtime/execution/model_stack.hpp: a checkpoint that runs on a device: its files, the model plugin that computes it,
// and the attention with its KV memory. A pipeline has one stack for each rank of its target and one for each runner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "execution/parts.hpp"
#include "loader/part_instance.hpp"
#include "mortise/ext/tuning.h"
#include "mortise/ext/weight_cache.h"
#include "pipeline/description.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// A checkpoint's folder, opened. A value.
struct ModelFiles {
  static ModelFiles open(const std::filesystem::path& folder);

  Checkpoint checkpoint;
  Tokenizer tokenizer;
};

// A checkpoint with the instance of the model plugin that computes it. Stacks that differ only in their attention share
// one, and a proposer keeps its target's.
struct OpenModel {
  std::shared_ptr<const PartInstance> device;  // of the weights
  std::shared_ptr<const ModelFiles> files;
  PartInstance instance;
  mortise_model_dims dims{};     // attention and proposers borrow it
  std::uint64_t vocab_hash = 0;  // vocabulary_hash() of the tokenizer
};

// The rank of a stack: it has a share of the model and of the KV memory. A value.
struct StackRank {
  std::int32_t rank = 0, world = 1;
};

// The parts and the kind of KV memory that a new stack gets.
struct StackParts {
  const PartDescription& model;
  const PartDescription& attention;
  KvDtype kv_dtype;
  std::int32_t block_size;
  bool populate_kv = false;  // allocates its pages in the background, not only as they are used
  bool own_kv = false;       // a new attention gets its own KV memory even if its layout is the serving one
};

// Invariant: parts() name instances that this stack keeps alive. Stacks may share instances. Used by the thread that
// runs steps, or by any thread while no step runs.
class ModelStack {
 public:
  // Creates the first model and the first attention that accept the checkpoint. `device` is active. `query` names the
  // device. Throws an Error that names the part, file or option at fault.
  ModelStack(std::shared_ptr<const PartInstance> device, std::shared_ptr<const ModelFiles> files,
             const StackParts& wanted, mortise_query query, StackRank rank = {});
  // Shares the model and the weights of `running`, with another attention, or with the same attention and another
  // cache. The stacks share instances, so their users must not call both at the same time.
  ModelStack(const ModelStack& running, const StackParts& wanted, mortise_query query);
  ~ModelStack();
  ModelStack(const ModelStack&) = delete;
  ModelStack& operator=(const ModelStack&) = delete;

  // Call these once each, in this order. All throw Errors. Parts shared with a running stack are already loaded and
  // active.
  void load_weights();
  void activate_model(const mortise_activate_args& sizes);
  // Gives the attention memory for `num_blocks` blocks, plus a padding block if steps can be captured as graphs. If
  // layout and number of blocks equal those of the running stack, this stack shares its memory with the contents.
  // Otherwise, a device with memory of its own might not hold two caches: if the running memory is large enough there,
  // `give_up` is called, and the memory is zeroed and shared. In all other cases the memory is new.
  void bind_kv(std::int32_t num_blocks, const std::function<void()>& give_up = {});
  void activate_attention(const mortise_activate_args& sizes);
  // Changes the sizes of the model, and of the attention if it is active, from `before` to `now`. If it throws an
  // Error, both have the old sizes again, or have failed.
  void resize(const mortise_activate_args& now, const mortise_activate_args& before);

  // Returns whether the attention shares the running stack's KV memory with its contents, and reads its layout.
  bool has_running_kv() const { return has_running_kv_; }
  std::shared_ptr<const OpenModel> target() const { return model_; }
  const Checkpoint& checkpoint() const { return model_->files->checkpoint; }
  const Tokenizer& tokenizer() const { return model_->files->tokenizer; }
  const mortise_model_dims& dims() const { return model_->dims; }
  // Tables of device, model and attention, and of graphs if all three can be captured. Without an owner.
  const ShardParts& parts() const { return parts_; }
  const PartInstance& model() const { return model_->instance; }
  const PartInstance& attention() const { return *attention_; }
  std::int32_t block_size() const { return block_size_; }
  std::int32_t kv_dtype() const { return kv_dtype_; }
  // On the rank's device: of all layers; of the cache, 0 before bind_kv(); of the weights.
  std::uint64_t kv_bytes_per_block() const { return layout_.bytes_per_block; }
  std::uint64_t kv_bytes() const;
  std::uint64_t weight_bytes() const;
  // Rows for one call of the head: enough to keep the device busy, with logits that are small beside the weights.
  std::int32_t max_logit_rows(std::int32_t max_batched_tokens) const;

 private:
  void open_model();
  void choose_attention(const PartDescription& attention, mortise_query& query, const ModelStack* running);
  void open_attention();
  void finish_parts();
  void check_windows(const Component& attention) const;
  const mortise_graph_table* graph_table() const;
  const mortise_weight_cache_table* open_weight_cache();
  void name_tuning_folder();
  void tell_unused_scales() const;

  const std::shared_ptr<const PartInstance> device_;
  const StackRank rank_;
  std::shared_ptr<OpenModel> model_;
  const std::int32_t block_size_;
  const bool populate_kv_;
  std::int32_t kv_dtype_ = 0;
  mortise_kv_layout layout_{};
  // KV memory with its layout and number of blocks. `running_` belongs to the running stack; it is empty if there is
  // none.
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

// Loads the weights of the ranks of a model, all at the same time, so that each page of the files is read once. Throws
// the Error of the first rank that fails.
void load_weights(std::span<const std::shared_ptr<ModelStack>> stacks);

// Returns the parts of the stack for an Execution. A copy keeps the stack alive. REQUIRES: all are active.
ShardParts parts_of(std::shared_ptr<const ModelStack> stack);

// Returns the id of the device's arithmetic for a type; null: the device does not compute in this type.
const char* numerics_id_of(const DevicePart& device, std::int32_t dtype);

// Throws Error unless the device computes in the model's type. `model` is its name in the message.
void require_numerics(const DevicePart& device, const std::string& model, std::int32_t dtype);

// Bytes of the device's memory, total and free. If the device cannot report them, the total is UINT64_MAX and free is
// 0.
std::uint64_t device_memory(const DevicePart& device);
std::uint64_t free_device_memory(const DevicePart& device);

// Returns a hash of the texts of all tokens: equal for tokenizers that write the same tokens with the same ids.
std::uint64_t vocabulary_hash(const Tokenizer& tokenizer);

// Returns the type of the KV cache; "auto" means the model's type.
std::int32_t kv_dtype(KvDtype wanted, const mortise_model_dims& dims);
// Returns the name of a type: "bf16", "f32", "int8", "fp8".
const char* dtype_name(std::int32_t dtype);
// Describes how weights are stored: "bf16", "int8", "int4 in groups of 64", "fp8 in groups of 128", "mxfp4".
std::string weight_format(const mortise_model_dims& dims);
// The type whose numerics id says how a device multiplies by the quantised weights. REQUIRES: dims.weight_bits != 0.
std::int32_t weight_class(const mortise_model_dims& dims);

}  // namespace mortise
