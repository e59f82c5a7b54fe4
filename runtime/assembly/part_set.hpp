// runtime/assembly/part_set.hpp: all parts of a pipeline, open and active, with the sizes that they were made for. A
// swap makes another set, which shares with the running one what stays the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assembly/proposer_set.hpp"
#include "engine/parts.hpp"
#include "engine/swap.hpp"
#include "execution/model_stack.hpp"
#include "pipeline/description.hpp"

namespace mortise {

// How parts come to a running set of them.
enum class Placement {
  kInPlace,
  // They run together for a while: an attention that is another has KV memory of its own, and what is shared keeps its
  // sizes until fit().
  kBeside,
};

// Never changed once it is made. The constructors call parts, so a set is made, and let go, by the thread that runs
// steps, or while none are run.
class PartSet {
 public:
  // Opens and activates everything, in the order that undoes itself when a part fails. Throws an Error that names the
  // part, file or option at fault.
  PartSet(const PipelineDescription& description, std::shared_ptr<const ModelFiles> files, FileOpener open_draft);
  // The parts of `description`, of which those that `running` has are that one's. With `files` the model is loaded from
  // these; without, it is the running one. Throws an AnotherModelError or another Error; then `running` is as it was.
  // It is so again when this is destroyed without keep(). `use` is told before anything that runs is touched. Throws an
  // Error with kConflict when parts are to run beside those of `running` and have other sizes.
  PartSet(const PartSet& running, const PipelineDescription& description, std::shared_ptr<const ModelFiles> files,
          FileOpener open_draft, const StepUse& use, Placement placement);
  ~PartSet();
  PartSet(const PartSet&) = delete;
  PartSet& operator=(const PartSet&) = delete;

  // Of parts that were made beside `running`, whose place they are about to take: gives what is shared these sizes.
  // Throws an Error; then `running` is as it was.
  void fit(const PartSet& running, const StepUse& use);
  // The sizes that shared parts have now are here to stay.
  void keep();

  // With owners: who has them keeps the instances.
  Parts parts() const;
  const EngineLimits& limits() const { return limits_; }
  const ModelStack& target() const { return *target_; }
  const PipelineDescription& description() const { return description_; }
  bool has_running_kv() const { return target_->has_running_kv(); }
  std::vector<RunnerStats> runner_stats() const { return proposers_->runners().stats(); }
  // The components that serve, in the order device, model, attention, scheduler, proposers. They live for ever.
  std::vector<const Component*> components() const;
  // What decides answers: device class, attention, model plugin, the checkpoint's and the tokenizer's fingerprints, KV
  // type, parallel size.
  const std::string& numerics_id() const { return numerics_id_; }

 private:
  // Shared parts that have other sizes than the running set's: its destructor gives them back those.
  struct Resized;

  std::string make_numerics_id() const;
  void open_device();
  void set_limits(const PartSet* running);
  void set_draft_limits();
  bool fills_device() const;
  std::int32_t useful_blocks(std::uint64_t blocks) const;
  std::int32_t blocks_that_fill_device();
  void bind_attention(const std::function<void()>& give_up);
  void open_scheduler();
  void activate(const PartSet* running, const StepUse& use, Placement placement);
  void check_second_cache(const PartSet& running) const;
  mortise_activate_args sizes() const;
  mortise_activate_args batch_sizes() const;

  const PipelineDescription description_;
  std::shared_ptr<PartInstance> device_;
  std::shared_ptr<ModelStack> target_;
  std::shared_ptr<ProposerSet> proposers_;
  std::shared_ptr<PartInstance> scheduler_;
  EngineLimits limits_;
  std::string files_id_;  // of checkpoint and tokenizer
  std::string numerics_id_;
  std::unique_ptr<Resized> resized_;
};

}  // namespace mortise
