// Handles failures of a step, and of a part that every step needs.
#include <spdlog/spdlog.h>

#include <new>

#include "engine/engine.hpp"
#include "error.hpp"

namespace mortise {

// Decides which requests a failed step ends. If a part can no longer work at all, check_required_parts() ends all
// requests. If a part refuses this step only, the requests of this step end and all others continue: KV was written
// only to blocks of the step's own sequences, and none of their tokens was committed. After any other failure the
// engine's state may be wrong, so all requests end.
void Engine::step_failed(const std::exception& exception) {
  const auto* const part = dynamic_cast<const PartError*>(&exception);
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr ||
                         (part != nullptr && part->status() == MORTISE_RESOURCE_EXHAUSTED);
  if (setup_->execution->failure()) return;
  // Nothing of the step was committed, so the fallback's parts can compute it again.
  if (!in_step_.empty() && !is_memory && part != nullptr && fall_back_from(*part)) return;
  if (in_step_.empty() || !(is_memory || part != nullptr)) {
    spdlog::error("step {} failed: {}; all requests fail", counters_.num_steps, exception.what());
    return fail_all(exception.what(), ErrorCode::kInternal);
  }
  constexpr const char* kConsequence = "the requests of the step fail, others continue";
  if (part != nullptr) {
    messages_.warn(*part, kConsequence);
  } else {
    spdlog::warn("step {}: the host has no memory; {}", counters_.num_steps, kConsequence);
  }
  const std::string why = is_memory
                              ? fmt::format(
                                    "the step ran out of memory ({}); lower max_batched_tokens or max_num_seqs of the "
                                    "scheduler, or kv_cache.memory",
                                    exception.what())
                              : exception.what();
  for (Sequence* sequence : in_step_) {
    fail_sequence(*sequence, why, is_memory ? ErrorCode::kOverloaded : ErrorCode::kInternal);
  }
}

void Engine::fail_sequence(Sequence& sequence, const std::string& why, ErrorCode code) {
  sequence.clear_drafts();
  sequence.gathered.error = why;
  sequence.gathered.code = code;
  end(sequence, FinishReason::kError);
}

void Engine::fail_all(const std::string& why, ErrorCode code) {
  for (const auto& sequence : live_) fail_sequence(*sequence, why, code);
}

void Engine::check_required_parts() {
  const std::optional<std::string> failure = setup_->execution->failure();
  if (!failure) return;
  if (!live_.empty()) spdlog::error("{}; nothing can run anymore", *failure);
  inbox_.part_failed(*failure);
  if (verified_swap_) verified_swap_->refuse(ErrorCode::kUnavailable, "the parts that serve have failed: " + *failure);
  fail_all("the pipeline can no longer run: " + *failure, ErrorCode::kUnavailable);
}

}  // namespace mortise
