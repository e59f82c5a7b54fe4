// runtime/assembly/assembly.hpp: owns a pipeline's parts from its description until its end: opens the device, the
// checkpoint and its tokenizer, loads the model, gives the attention its KV memory, and activates everything. While an
// engine runs the parts, swap() replaces them. Invariant: the numerics id, which decides the tokens, never changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "assembly/part_set.hpp"
#include "assembly/previous_parts.hpp"
#include "assembly/swap_options.hpp"
#include "engine/engine.hpp"
#include "pipeline/description.hpp"
#include "runner/runner_service.hpp"
#include "sampling/params.hpp"

namespace mortise {

// Reports that a part has failed and the previous part has come back, or could not.
struct FallbackNews {
  PartKind kind;
  std::vector<const Component*> failed, serving;  // of that kind, before and now; several only if proposers
  std::string why;                                // the message of the part or the host
  SwapFigures figures;                            // of the exchange
  std::string error;                              // why the previous part could not come back; "": it has
};

// Any thread may call its functions, except where a comment says otherwise. Invariant: parts_ is the set that the
// engine runs, and the numerics id never changes.
class Assembly {
 public:
  // Throws an Error that names the part, file or option at fault. `files`, if given, replaces the model's `path`.
  // `open_draft` opens the checkpoints of draft models.
  explicit Assembly(const PipelineDescription& description, std::optional<ModelFiles> files = std::nullopt,
                    FileOpener open_draft = ModelFiles::open);
  ~Assembly();  // after the engine
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  // Replaces the parts and sizes that `engine` runs by those of `next`, between two of its steps. Unchanged parts stay,
  // weights too. Blocks until it is done. Throws an AnotherModelError if its model gives other tokens or has another
  // max_model_len, an Error if a part cannot be opened or the numerics id differs for another reason, and what
  // Engine::swap throws; nothing has changed then. While a swap with verify_steps is under way, all others are refused.
  // If a new part fails later, the previous part comes back if `options` say so. REQUIRES: `engine` runs the parts and
  // limits of this assembly.
  SwapFigures swap(Engine& engine, const PipelineDescription& next, const SwapOptions& options = {});
  // Sets the function that is called when a part has failed and the previous part has come back, or could not. The log
  // says the same. `tell` is called on the engine's thread and must not wait. Call this before the first swap.
  void on_fallback(std::function<void(const FallbackNews& news)> tell) { tell_ = std::move(tell); }

  // Returns the serving parts and sizes; a swap changes them.
  PipelineDescription description() const;
  Parts parts() const;
  EngineLimits limits() const;
  std::vector<const Component*> components() const;  // as PartSet's
  std::uint64_t kv_bytes_per_block() const;          // of all layers and ranks
  std::vector<RunnerStats> runner_stats() const;     // only while no step runs

  // Never changed by a swap.
  const mortise_model_dims& dims() const { return dims_; }  // without sliding windows: they belong to the model
  const Tokenizer& tokenizer() const { return files_->tokenizer; }
  const Checkpoint& checkpoint() const { return files_->checkpoint; }
  ModelInfo model_info() const;
  const std::string& numerics_id() const { return numerics_id_; }  // PartSet's
  // A hash of the numerics id, which answers carry. Same fingerprint and same seed: same tokens.
  std::string system_fingerprint() const;
  // Returns a hash of the texts of all tokens. Equal for tokenizers that give the same texts the same ids.
  std::string vocabulary() const;
  // Returns the sampling parameters that generation_config.json recommends.
  SamplingParams default_sampling() const;

 private:
  std::shared_ptr<const ModelFiles> files_for(const PipelineDescription& next) const;
  Replacement replacement(std::shared_ptr<PartSet> made, const PreviousParts& previous);
  Fallback fallback_from(PartKind kind);
  Replacement make_previous(PartKind kind, const StepUse& use);

  const FileOpener open_draft_;
  const bool made_;  // files were given, so there is no folder to open again
  const std::shared_ptr<const ModelFiles> files_;
  std::mutex swapping_;                  // one swap at a time
  std::atomic<bool> verifying_ = false;  // the swap under way has verify_steps
  mutable std::mutex mutex_;             // guards parts_
  std::shared_ptr<PartSet> parts_;       // replaced and released on the engine's thread; released by the destructor
  PreviousParts previous_;               // engine's thread only
  std::function<void(const FallbackNews&)> tell_ = [](const FallbackNews&) {};
  mortise_model_dims dims_{};
  bool is_cut_ = false;  // max_model_len is below the checkpoint's own length
  std::string numerics_id_;
};

}  // namespace mortise
