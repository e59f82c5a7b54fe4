// runtime/assembly/part_set.hpp: all parts of a pipeline, open and active, with the sizes that they were made for. A
// swap makes another set, which shares unchanged parts with the serving set.
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

// How the parts of a new set take over from those of the serving set.
enum class Placement {
  kInPlace,
  // New and serving parts run side by side for a while. A different attention gets its own KV memory. Shared parts keep
  // their sizes until fit().
  kBeside,
};

// A complete set of parts. Invariant: its parts never change; a swap makes another set. Constructors and destructor
// call parts, so a set is made and destroyed on the thread that runs steps, or while no step runs.
class PartSet {
 public:
  // Opens and activates everything. If a part fails, those before it are closed in reverse order. Throws an Error that
  // names the part, file or option at fault.
  PartSet(const PipelineDescription& description, std::shared_ptr<const ModelFiles> files, FileOpener open_draft);
  // Opens the parts of `description`. Parts that `running` already has are shared with it. `files` gives the model to
  // load; without it the serving model is shared, or loaded again from the same files if the device differs. Calls
  // `use` before it takes memory or buffers from serving parts. Destroying the set without keep() gives shared parts
  // their previous sizes. Throws an AnotherModelError; an Error with kConflict if the parts are to run beside those of
  // `running` but have other sizes; or another Error. The parts of `running` are then as they were.
  PartSet(const PartSet& running, const PipelineDescription& description, std::shared_ptr<const ModelFiles> files,
          FileOpener open_draft, const StepUse& use, Placement placement);
  ~PartSet();
  PartSet(const PartSet&) = delete;
  PartSet& operator=(const PartSet&) = delete;

  // For parts made with kBeside, just before they replace `running`: gives shared parts the sizes of this set. If it
  // throws an Error, they have their previous sizes.
  void fit(const PartSet& running, const StepUse& use);
  // Makes the new sizes of shared parts permanent: the destructor no longer restores the previous ones.
  void keep();

  // Returns the parts with their owners, so that a copy keeps the instances alive.
  Parts parts() const;
  const EngineLimits& limits() const { return limits_; }
  const ModelStack& target() const { return *stacks_.front(); }  // of rank 0
  std::uint64_t kv_bytes_per_block() const;                      // of all layers and ranks
  const PipelineDescription& description() const { return description_; }
  bool has_running_kv() const;
  std::vector<RunnerStats> runner_stats() const { return proposers_->runners().stats(); }
  // Returns the components that serve, in the order device, model, attention, scheduler, proposers. They are never
  // unloaded.
  std::vector<const Component*> components() const;
  // Identifies everything that decides the tokens: device class, attention, model plugin, the checkpoint's and the
  // tokenizer's fingerprints, KV type. The number of ranks is not in it: it changes no bit.
  const std::string& numerics_id() const { return numerics_id_; }

 private:
  // Shared parts that this set has resized. The destructor restores the serving set's sizes.
  struct Resized;

  std::string make_numerics_id() const;
  void open_devices();
  void open_models(const std::shared_ptr<const ModelFiles>& files);
  std::shared_ptr<ProposerSet> open_proposers(FileOpener open_draft) const;
  void set_limits(const PartSet* running);
  void set_draft_limits();
  bool fills_device() const;
  std::int32_t useful_blocks(std::uint64_t blocks) const;
  std::int32_t blocks_that_fill_device();
  std::uint64_t least_free_memory() const;
  void tell_ranks() const;
  std::int32_t world() const { return static_cast<std::int32_t>(devices_.size()); }
  void bind_attention(const std::function<void()>& give_up);
  void open_scheduler();
  void activate(const PartSet* running, const StepUse& use, Placement placement);
  void check_second_cache(const PartSet& running) const;
  mortise_activate_args sizes() const;
  mortise_activate_args batch_sizes() const;

  const PipelineDescription description_;
  std::vector<std::shared_ptr<PartInstance>> devices_;  // by rank; one without tensor parallelism
  std::vector<std::shared_ptr<ModelStack>> stacks_;     // the target's, by rank
  std::shared_ptr<ProposerSet> proposers_;
  std::shared_ptr<PartInstance> scheduler_;
  EngineLimits limits_;
  std::string files_id_;  // of checkpoint and tokenizer
  std::string numerics_id_;
  std::unique_ptr<Resized> resized_;
};

}  // namespace mortise
