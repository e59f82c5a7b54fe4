#include "assembly/previous_parts.hpp"

#include <algorithm>
#include <utility>

namespace mortise {
namespace {

// Without a choice in SwapOptions: whether the previous part comes back when the new one fails.
enum class Default { kComesBack, kIsDropped };

bool same_parts(const std::vector<PartDescription>& a, const std::vector<PartDescription>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return same_part(x, y); });
}

}  // namespace

void PreviousParts::remember(const PipelineDescription& before, const PipelineDescription& after,
                             const SwapOptions& options) {
  const auto note = [&](auto& previous, const auto& now, Default otherwise) {
    previous.reset();
    if (options.fallback.value_or(otherwise == Default::kComesBack)) previous = now;
  };
  if (!same_part(before.device, after.device)) note(device_, before.device, Default::kIsDropped);
  if (!same_part(before.model, after.model)) note(model_, before.model, Default::kIsDropped);
  if (!same_part(before.attention, after.attention)) note(attention_, before.attention, Default::kIsDropped);
  if (!same_part(before.scheduler, after.scheduler)) note(scheduler_, before.scheduler, Default::kComesBack);
  if (!same_parts(before.proposers, after.proposers)) note(proposers_, before.proposers, Default::kComesBack);
}

std::vector<PartKind> PreviousParts::kinds() const {
  std::vector<PartKind> list;
  if (device_) list.push_back(PartKind::kDevice);
  if (model_) list.push_back(PartKind::kModel);
  if (attention_) list.push_back(PartKind::kAttention);
  if (scheduler_) list.push_back(PartKind::kScheduler);
  if (proposers_) list.push_back(PartKind::kProposer);
  return list;
}

PipelineDescription PreviousParts::take(PartKind kind, PipelineDescription running) {
  const auto put = [](auto& part, auto& previous) {
    part = std::move(previous.value());
    previous.reset();
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
