// Falls back from a new part that fails: a swap between two steps puts the previous part in its place.
#include "engine/engine.hpp"

namespace mortise {
namespace {

// The name and the health of a part that steps call.
struct StepPart {
  std::string name;
  const PartHealth& health;
};
StepPart step_part(const ShardParts& parts, PartKind kind) {
  if (kind == PartKind::kDevice) return {parts.device.name, *parts.device.health};
  if (kind == PartKind::kModel) return {parts.model.name, *parts.model.health};
  return {parts.attention.name, *parts.attention.health};
}

bool is_policy(PartKind kind) {
  return kind == PartKind::kScheduler || kind == PartKind::kProposer;
}

}  // namespace

std::optional<std::pair<PartKind, std::string>> Engine::find_broken() const {
  for (const auto& [kind, fallback] : fallbacks_) {
    std::optional<std::string> why;
    if (kind == PartKind::kScheduler) {
      why = setup_->planner->why_replace();
    } else if (kind == PartKind::kProposer) {
      why = setup_->drafting->why_replace();
    } else {
      const auto parts = setup_->execution->snapshot();
      for (const ShardParts& shard : parts->shards) {
        const StepPart part = step_part(shard, kind);
        if (!why && part.health.failed()) why = part.health.reason();
      }
    }
    if (why) return std::pair(kind, *why);
  }
  return std::nullopt;
}

bool Engine::fall_back_from_broken() {
  const std::optional<std::pair<PartKind, std::string>> broken = find_broken();
  return broken && fall_back(broken->first, broken->second);
}

bool Engine::fall_back_from(const PartError& failed) {
  const auto parts = setup_->execution->snapshot();
  for (const auto& [kind, fallback] : fallbacks_) {
    if (!is_policy(kind) && step_part(parts->shards.front(), kind).name == failed.part()) {
      return fall_back(kind, failed.what());
    }
  }
  return false;
}

bool Engine::fall_back(PartKind kind, const std::string& why) {
  const auto found = fallbacks_.find(kind);
  if (found == fallbacks_.end()) return false;
  const Fallback fallback = std::move(found->second);
  fallbacks_.erase(found);  // a fallback is tried once
  if (verified_swap_) {     // its candidate runs beside the parts that are replaced now
    verified_swap_->refuse(ErrorCode::kConflict,
                           "a part failed meanwhile, and its predecessor was restored; ask again");
    settle_verified();
  }
  for (const auto& sequence : live_) {  // the step may have failed between its drafts and its commit
    setup_->kv->drop_forks(*sequence);
    sequence->clear_drafts();
  }
  try {
    gaps_.begin();
    tell_when_streams_go_on(carry_out(fallback.make, [] {}),
                            [taken = fallback.taken, why](const SwapFigures& figures) { taken(why, figures); });
    return true;
  } catch (const std::exception& exception) {
    fallback.refused(why, exception.what());
    return false;
  }
}

}  // namespace mortise
