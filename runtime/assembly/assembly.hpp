// runtime/assembly/assembly.hpp: a pipeline's parts, from its description until its end: opens the device, the
// checkpoint and its tokenizer, loads the model, gives the attention its KV memory, and activates everything. While an
// engine runs the parts, others are put in their place (swap()); what decides the tokens stays the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "assembly/former_parts.hpp"
#include "assembly/part_set.hpp"
#include "assembly/swap_options.hpp"
#include "engine/engine.hpp"
#include "pipeline/description.hpp"
#include "runner/runner_service.hpp"
#include "sampling/params.hpp"

namespace mortise {

// A part has failed, and what served before it has come back, or could not.
struct FallbackNews {
  PartKind kind;
  std::vector<const Component*> failed, serving;  // of that kind: before and now; several are proposers
  std::string why;                                // as the part, or the host, says it
  SwapFigures figures;                            // of the exchange
  std::string error;                              // why nothing could come back; "": it has
};

// All functions may be called on any thread, but for those that say otherwise.
class Assembly {
 public:
  // Throws an Error that names the part, file or option at fault. With `files` they are the model, whatever its `path`
  // says. `open_draft` opens what proposers run.
  explicit Assembly(const PipelineDescription& description, std::optional<ModelFiles> files = std::nullopt,
                    FileOpener open_draft = ModelFiles::open);
  ~Assembly();  // behind the engine
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  // Puts the parts and sizes of `next` in the place of those that `engine` runs, between two of its steps; what `next`
  // has in common with them stays, weights too. Blocks until that is done. Throws an AnotherModelError when its model
  // is another, an Error when the parts cannot be opened, or when their numerics id is another for other reasons, and
  // what Engine::swap throws; then nothing has changed. While a swap with verify_steps is under way all others are
  // refused. When one of the new parts fails later, the one before comes back as `options` wish. REQUIRES: `engine`
  // runs the parts and limits of this assembly.
  SwapFigures swap(Engine& engine, const PipelineDescription& next, const SwapOptions& options = {});
  // Who hears of parts that came back; it does not wait. A warning in the log says the same. Call it before the first
  // swap. `tell` is called on the engine's thread.
  void on_fallback(std::function<void(const FallbackNews& news)> tell) { tell_ = std::move(tell); }

  // What runs now.
  PipelineDescription description() const;
  Parts parts() const;
  EngineLimits limits() const;
  std::vector<const Component*> components() const;  // as PartSet's
  std::uint64_t kv_bytes_per_block() const;          // of all layers
  std::vector<RunnerStats> runner_stats() const;     // while no step runs

  // What no swap changes.
  const mortise_model_dims& dims() const { return dims_; }  // without sliding windows, which are the model's
  const Tokenizer& tokenizer() const { return files_->tokenizer; }
  const Checkpoint& checkpoint() const { return files_->checkpoint; }
  ModelInfo model_info() const;
  const std::string& numerics_id() const { return numerics_id_; }  // PartSet's
  // A hash of it, as answers carry it: same fingerprint and seed, same tokens.
  std::string system_fingerprint() const;
  // A hash of the texts of all tokens: equal for tokenizers that write the same tokens with the same ids.
  std::string vocabulary() const;
  // What generation_config.json recommends.
  SamplingParams default_sampling() const;

 private:
  std::shared_ptr<const ModelFiles> files_for(const PipelineDescription& next) const;
  Replacement replacement(std::shared_ptr<PartSet> made, const FormerParts& former);
  Fallback fallback_from(PartKind kind);
  Replacement make_former(PartKind kind, const StepUse& use);

  const FileOpener open_draft_;
  const bool made_;  // the model's files were given, so there is no folder to open again
  const std::shared_ptr<const ModelFiles> files_;
  std::mutex swapping_;                  // one swap at a time
  std::atomic<bool> verifying_ = false;  // the one under way has verify_steps
  mutable std::mutex mutex_;             // guards parts_
  std::shared_ptr<PartSet> parts_;       // changed and let go by the engine's thread, and let go by the destructor
  FormerParts former_;                   // engine's thread only
  std::function<void(const FallbackNews&)> tell_ = [](const FallbackNews&) {};
  mortise_model_dims dims_{};
  bool is_cut_ = false;  // by max_model_len, below what the checkpoint takes
  std::string numerics_id_;
};

}  // namespace mortise
