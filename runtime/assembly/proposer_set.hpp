// runtime/assembly/proposer_set.hpp: the proposers of a pipeline with their draft models: opened, bound and activated
// together. Only the thread that runs steps calls it, or any thread while no step runs.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/parts.hpp"
#include "execution/model_stack.hpp"
#include "loader/part_instance.hpp"
#include "pipeline/description.hpp"
#include "runner/runner_service.hpp"

namespace mortise {

// Invariant: active() has one entry for each proposer of the description, in its order. Used by the thread that runs
// steps, or by any thread while no step runs.
class ProposerSet {
 public:
  using Devices = RunnerService::Devices;

  // Creates and binds the description's proposers, if there are any, for this target and KV type. Throws an Error that
  // names the proposer at fault. `devices` by rank, all active; the proposers themselves run on the first.
  ProposerSet(const PipelineDescription& description, Devices devices, std::shared_ptr<const OpenModel> target,
              std::int32_t kv_dtype, FileOpener open_draft);
  ProposerSet(const ProposerSet&) = delete;
  ProposerSet& operator=(const ProposerSet&) = delete;

  RunnerService& runners() { return runners_; }
  void activate(const mortise_activate_args& sizes);  // once, after the runners

  // The proposers as the engine calls them, in the description's order, without an owner.
  const std::vector<ActiveProposer>& active() const { return active_; }
  std::vector<const Component*> components() const;
  // Returns whether `description` has the same proposers with the same options.
  bool is_of(const PipelineDescription& description) const;
  // The proposers' part of the numerics id: with rejection sampling they influence the tokens. Otherwise "".
  const std::string& rejection_id() const { return rejection_id_; }

 private:
  void open(const PartDescription& proposer, const mortise_query& query, const CreateContext& context);

  const std::vector<PartDescription> descriptions_;
  const bool rejection_;
  const std::shared_ptr<const OpenModel> target_;
  RunnerService runners_;  // outlives the instances
  std::deque<PartInstance> instances_;
  std::vector<ActiveProposer> active_;
  std::string rejection_id_;
};

}  // namespace mortise
