// runtime/runner/runner_service.hpp: the runners of one pipeline. Implements get_ext(MORTISE_EXT_RUNNER) for proposers,
// and reserves the runners' memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/description.hpp"
#include "runner/runner.hpp"

namespace mortise {

// Opens a checkpoint by its path. Benchmarks replace it, because their checkpoints are not in a folder.
using FileOpener = std::function<ModelFiles(const std::filesystem::path&)>;

// The target's KV pool, which determines the size of the draft models' pools.
struct TargetPool {
  std::int32_t num_blocks = 0, block_size = 0;
  bool rejection = false;  // rejection sampling verifies the drafts
};

// Opens, activates and closes the runners that proposers ask for. Used by the thread that opens the pipeline, then by
// the engine's thread. Invariant: runners_ has one entry for each open runner.
class RunnerService {
 public:
  using Devices = std::vector<std::shared_ptr<const PartInstance>>;

  // `devices` of the pipeline by rank, all active. The service outlives the proposers.
  RunnerService(Devices devices, PipelineDescription description, std::shared_ptr<const OpenModel> target,
                FileOpener open_files);
  ~RunnerService();
  RunnerService(const RunnerService&) = delete;
  RunnerService& operator=(const RunnerService&) = delete;

  // The table for MORTISE_EXT_RUNNER; nullptr for any other id.
  const void* extension(const char* id) const;

  // Call these in this order, once the proposers are bound. Runners that are opened later are activated at once.
  // `step_meanwhile` is called between two calls of parts (see StepUse).
  void activate_models(const std::function<void()>& step_meanwhile);
  // KV memory of the runners on one device, if all used the same: the bytes of those whose size is set in bytes, and
  // the bytes of the others for each token of the target.
  std::uint64_t fixed_kv_bytes() const;
  double kv_bytes_per_target_token() const;
  void activate_kv(const TargetPool& target, const std::function<void()>& step_meanwhile);

  // One entry for each open runner.
  std::vector<RunnerStats> stats() const;

 private:
  struct Table;
  struct OpenRunner;  // the implementation of mortise_runner

  static mortise_status open_runner(const mortise_runner_table* table, const mortise_runner_open_args* args,
                                    mortise_runner** runner, mortise_error* error);
  static void close_runner(mortise_runner* runner);
  static Runner& runner_of(mortise_runner* runner);
  OpenRunner& open(const mortise_runner_open_args& args);
  Devices chosen_devices(const nlohmann::json& ranks) const;
  // Returns the stacks of a draft model, by its own rank.
  std::vector<std::shared_ptr<ModelStack>> open_stacks(const std::string& path, const nlohmann::json& options) const;
  PartDescription model_for(const std::string& path, const std::string& dtype, const mortise_query& query) const;
  PartDescription attention_with(const nlohmann::json& options) const;
  void check_vocabulary(const Tokenizer& draft, const std::string& path) const;
  void activate_kv(OpenRunner& entry, const std::function<void()>& step_meanwhile) const;

  const Devices devices_;
  const PipelineDescription description_;
  const std::shared_ptr<const OpenModel> target_;
  const FileOpener open_files_;
  std::unique_ptr<Table> table_;
  std::optional<TargetPool> target_pool_;  // set when the pools are made
  std::vector<std::unique_ptr<OpenRunner>> runners_;
};

}  // namespace mortise
