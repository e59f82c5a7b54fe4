#include "assembly/former_parts.hpp"

#include <algorithm>
#include <utility>

namespace mortise {
namespace {

bool same_parts(const std::vector<PartDescription>& a, const std::vector<PartDescription>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return same_part(x, y); });
}

}  // namespace

void FormerParts::remember(const PipelineDescription& before, const PipelineDescription& after,
                           const SwapOptions& options) {
  const auto note = [&](auto& former, const auto& now, bool is_same, bool by_default) {
    if (is_same) return;
    former.reset();
    if (options.fallback.value_or(by_default)) former = now;
  };
  note(device_, before.device, same_part(before.device, after.device), false);
  note(model_, before.model, same_part(before.model, after.model), false);
  note(attention_, before.attention, same_part(before.attention, after.attention), false);
  note(scheduler_, before.scheduler, same_part(before.scheduler, after.scheduler), true);
  note(proposers_, before.proposers, same_parts(before.proposers, after.proposers), true);
}

std::vector<PartKind> FormerParts::kinds() const {
  std::vector<PartKind> list;
  if (device_) list.push_back(PartKind::kDevice);
  if (model_) list.push_back(PartKind::kModel);
  if (attention_) list.push_back(PartKind::kAttention);
  if (scheduler_) list.push_back(PartKind::kScheduler);
  if (proposers_) list.push_back(PartKind::kProposer);
  return list;
}

PipelineDescription FormerParts::take(PartKind kind, PipelineDescription running) {
  const auto put = [](auto& part, auto& former) {
    part = std::move(former.value());
    former.reset();
  };
  switch (kind) {
    case PartKind::kDevice:
      put(running.device, device_);
      break;
    case PartKind::kModel:
      put(running.model, model_);
      break;
    case PartKind::kAttention:
      put(running.attention, attention_);
      break;
    case PartKind::kScheduler:
      put(running.scheduler, scheduler_);
      break;
    case PartKind::kProposer:
      put(running.proposers, proposers_);
      break;
  }
  read_shared_options(running);
  return running;
}

}  // namespace mortise
