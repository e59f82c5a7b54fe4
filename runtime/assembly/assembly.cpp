#include "assembly/assembly.hpp"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "assembly/another_model.hpp"
#include "checkpoint/hash_sidecar.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// Returns the checkpoint's folder. All choices have the same option `path`; the configuration in that folder decides
// which of them serves.
std::string model_folder(const PipelineDescription& description) {
  const nlohmann::json& options = description.model.choices.front().options;
  if (!options.contains("path") || !options.at("path").is_string()) {
    fail("{}: model '{}' has no option 'path' that names a checkpoint folder", description.model.where,
         description.model.name);
  }
  return options.at("path").get<std::string>();
}

std::shared_ptr<const ModelFiles> open_files(const PipelineDescription& description) {
  auto files = std::make_shared<ModelFiles>(ModelFiles::open(model_folder(description)));
  files->checkpoint.start_hashing(HashSidecar::standard_folder());
  return files;
}

}  // namespace

Assembly::Assembly(const PipelineDescription& description, std::optional<ModelFiles> files, FileOpener open_draft)
    : open_draft_(std::move(open_draft)),
      made_(files.has_value()),
      files_(made_ ? std::make_shared<const ModelFiles>(std::move(*files)) : open_files(description)),
      parts_(std::make_shared<PartSet>(description, files_, open_draft_)),
      dims_(parts_->target().dims()) {
  const nlohmann::json& model_options = parts_->target().model().options();
  is_cut_ = model_options.contains("max_model_len") && !model_options["max_model_len"].is_null() &&
            dims_.max_model_len < checkpoint().config().max_position_embeddings.value_or(INT32_MAX);
  dims_.sliding_windows = nullptr;
  numerics_id_ = parts_->numerics_id();
}

Assembly::~Assembly() = default;

// Returns the files for a model that must be opened again, or null if the model is the serving one. If the named folder
// has the same contents as the serving model's, returns the serving model's files. Throws an AnotherModelError if the
// contents differ.
std::shared_ptr<const ModelFiles> Assembly::files_for(const PipelineDescription& next) const {
  if (same_part(next.model, description().model)) return nullptr;
  if (made_) return files_;
  std::shared_ptr<const ModelFiles> files = open_files(next);
  if (files->checkpoint.fingerprint() != checkpoint().fingerprint() ||
      files->tokenizer.fingerprint() != tokenizer().fingerprint()) {
    throw AnotherModelError(fmt::format("{}: is not the model and tokenizer that run now ({})",
                                        files->checkpoint.path().string(), checkpoint().path().string()));
  }
  return files_;
}

SwapFigures Assembly::swap(Engine& engine, const PipelineDescription& next, const SwapOptions& options) {
  std::unique_lock swapping(swapping_, std::try_to_lock);
  if (!swapping) {
    if (verifying_) fail(ErrorCode::kConflict, "a swap with verify_steps is under way; wait for its end");
    swapping.lock();  // waits for another swap without verify_steps, which takes a moment
  }
  verifying_ = options.verify_steps > 0;
  const std::shared_ptr<void> ends(nullptr, [this](void*) { verifying_ = false; });
  const PipelineDescription seen = description();
  const std::shared_ptr<const ModelFiles> files = files_for(next);
  const Placement placement = options.verify_steps > 0 ? Placement::kBeside : Placement::kInPlace;
  const auto make = [&](const StepUse& use) {
    if (!same_pipeline(seen, parts_->description())) {
      fail(ErrorCode::kConflict, "a part failed meanwhile, and its predecessor was restored; ask again");
    }
    PreviousParts previous = previous_;
    previous.remember(seen, next, options);
    const std::shared_ptr<PartSet> running = parts_;  // steps run meanwhile, and a fallback may replace parts_
    return replacement(std::make_shared<PartSet>(*running, next, files, open_draft_, use, placement), previous);
  };
  return engine.swap(make, options.verify_steps, options.cancel);
}

// The rest of this runs on the engine's thread.

Replacement Assembly::replacement(std::shared_ptr<PartSet> made, const PreviousParts& previous) {
  Replacement result{made->parts(), made->limits(), made->has_running_kv()};
  for (const PartKind kind : previous.kinds()) result.fallbacks[kind] = fallback_from(kind);
  result.taken = [this, made, previous] {
    made->keep();
    previous_ = previous;
    std::shared_ptr<PartSet> before = made;
    const std::lock_guard lock(mutex_);
    parts_.swap(before);
  };
  result.fit = [this, made](const StepUse& at_exchange) { made->fit(*parts_, at_exchange); };
  return result;
}

Fallback Assembly::fallback_from(PartKind kind) {
  const auto serving = [this, kind] {
    std::vector<const Component*> list = parts_->components();
    std::erase_if(list, [kind](const Component* component) { return component->kind != kind; });
    return list;
  };
  const auto news = std::make_shared<FallbackNews>();
  news->kind = kind;
  Fallback fallback;
  fallback.make = [this, kind, news, serving](const StepUse& use) {
    news->failed = serving();
    return make_previous(kind, use);
  };
  fallback.taken = [this, news, serving](const std::string& why, const SwapFigures& figures) {
    news->serving = serving();
    news->why = why;
    news->figures = figures;
    std::vector<std::string> names;
    for (const Component* component : news->serving) names.push_back(component->label());
    spdlog::warn("{}; the previous parts were restored: {}", why,
                 names.empty() ? "no proposer" : fmt::to_string(fmt::join(names, ", ")));
    tell_(*news);
  };
  fallback.refused = [this, news, serving](const std::string& why, const std::string& error) {
    news->serving = serving();
    news->why = why;
    news->error = error;
    spdlog::error("{}; the previous parts cannot be restored: {}", why, error);
    tell_(*news);
  };
  return fallback;
}

Replacement Assembly::make_previous(PartKind kind, const StepUse& use) {
  PreviousParts previous = previous_;
  const PipelineDescription next = previous.take(kind, parts_->description());
  const std::shared_ptr<const ModelFiles> files = kind == PartKind::kModel ? files_ : nullptr;
  Replacement result =
      replacement(std::make_shared<PartSet>(*parts_, next, files, open_draft_, use, Placement::kInPlace), previous);
  // The failed part may have written anything to the KV memory.
  if (kind != PartKind::kScheduler && kind != PartKind::kProposer) result.same_kv = false;
  return result;
}

PipelineDescription Assembly::description() const {
  const std::lock_guard lock(mutex_);
  return parts_->description();
}

Parts Assembly::parts() const {
  const std::lock_guard lock(mutex_);
  return parts_->parts();
}

EngineLimits Assembly::limits() const {
  const std::lock_guard lock(mutex_);
  return parts_->limits();
}

std::vector<const Component*> Assembly::components() const {
  const std::lock_guard lock(mutex_);
  return parts_->components();
}

std::uint64_t Assembly::kv_bytes_per_block() const {
  const std::lock_guard lock(mutex_);
  return parts_->kv_bytes_per_block();
}

std::vector<RunnerStats> Assembly::runner_stats() const {
  const std::lock_guard lock(mutex_);
  return parts_->runner_stats();
}

ModelInfo Assembly::model_info() const {
  ModelInfo info;
  info.vocab_size = dims().vocab_size;
  info.eos_tokens = checkpoint().generation_config().eos_token_ids;
  if (info.eos_tokens.empty() && tokenizer().eos_id()) info.eos_tokens.push_back(*tokenizer().eos_id());
  // The head has no logit for such tokens: they are never drawn, and a device refuses to ban them (min_tokens).
  std::erase_if(info.eos_tokens, [&](std::int32_t id) { return id >= info.vocab_size; });
  info.is_cut = is_cut_;
  return info;
}

std::string Assembly::system_fingerprint() const {
  return fmt::format("mortise-{:016x}", XXH64(numerics_id_.data(), numerics_id_.size(), 0));
}

std::string Assembly::vocabulary() const {
  return fmt::format("{:016x}", vocabulary_hash(tokenizer()));
}

SamplingParams Assembly::default_sampling() const {
  const GenerationConfig& config = checkpoint().generation_config();
  SamplingParams params;
  if (config.temperature) params.temperature = static_cast<float>(*config.temperature);
  if (config.do_sample == false) params.temperature = 0;
  if (config.top_k) params.top_k = *config.top_k;
  if (config.top_p) params.top_p = static_cast<float>(*config.top_p);
  if (config.min_p) params.min_p = static_cast<float>(*config.min_p);
  if (config.repetition_penalty) params.repetition_penalty = static_cast<float>(*config.repetition_penalty);
  return params;
}

}  // namespace mortise
