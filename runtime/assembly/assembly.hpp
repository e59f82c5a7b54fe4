// runtime/assembly/assembly.hpp: from a pipeline's description to parts that run: opens the device, the checkpoint and
// its tokenizer, loads the model, gives the attention its KV memory, and activates everything, in the order that undoes
// itself when a step fails.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "execution/model_stack.hpp"
#include "execution/parts.hpp"
#include "loader/part_instance.hpp"
#include "pipeline/description.hpp"
#include "runner/runner_service.hpp"
#include "sampling/params.hpp"

namespace mortise {

class Assembly {
 public:
  // Throws an Error that names the part, file or option at fault. With `files` they are the model, whatever its `path`
  // says. `open_draft` opens what proposers run.
  explicit Assembly(const PipelineDescription& description, std::optional<ModelFiles> files = std::nullopt,
                    FileOpener open_draft = ModelFiles::open);
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  const Parts& parts() const { return parts_; }
  const EngineLimits& limits() const { return limits_; }
  const mortise_model_dims& dims() const { return target_->dims(); }
  std::uint64_t kv_bytes_per_block() const { return target_->kv_bytes_per_block(); }  // of all layers
  const Tokenizer& tokenizer() const { return target_->tokenizer(); }
  const Checkpoint& checkpoint() const { return target_->checkpoint(); }
  ModelInfo model_info() const;
  std::vector<RunnerStats> runner_stats() const { return runners_->stats(); }  // while no step runs

  // What decides answers: device class, attention, model plugin, the checkpoint's and the tokenizer's fingerprints, KV
  // type, parallel size.
  std::string numerics_id() const;
  // A hash of it, as answers carry it: same fingerprint and seed, same tokens.
  std::string system_fingerprint() const;
  // A hash of the texts of all tokens: equal for tokenizers that write the same tokens with the same ids.
  std::string vocabulary() const;
  // What generation_config.json recommends.
  SamplingParams default_sampling() const;

 private:
  void open_device(const PipelineDescription& description);
  void set_limits(const PipelineDescription& description);
  bool fills_device(const PipelineDescription& description) const;
  std::int32_t useful_blocks(const PipelineDescription& description, std::uint64_t blocks) const;
  void bind_attention(const PipelineDescription& description);
  void open_policies(const PipelineDescription& description);
  mortise_activate_args sizes() const;
  mortise_activate_args batch_sizes() const;
  void open_proposer(const PartDescription& description, const mortise_query& query, const CreateContext& context);
  void activate(const PipelineDescription& description);

  // In order of creation; destroyed in reverse.
  std::shared_ptr<PartInstance> device_;
  std::shared_ptr<ModelStack> target_;
  std::optional<RunnerService> runners_;
  std::optional<PartInstance> scheduler_;
  std::deque<PartInstance> proposers_;
  EngineLimits limits_;
  bool is_cut_ = false;       // by max_model_len, below what the checkpoint takes
  std::string rejection_id_;  // of numerics_id(): the proposers, if they have a say
  Parts parts_;
};

}  // namespace mortise
