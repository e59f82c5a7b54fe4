#include "engine/live_requests.hpp"

namespace mortise {

void LiveRequests::add(std::vector<std::shared_ptr<Sequence>> choices) {
  const RequestState& state = *choices.front()->owner;
  if (state.request.deadline) deadlines_.emplace(*state.request.deadline, state.id);
  const std::size_t num_choices = choices.size();
  requests_.emplace(state.id, Live{std::move(choices), num_choices, true});
}

void LiveRequests::leave_queue(Live& live) {
  if (!std::exchange(live.waits, false)) return;
  ++progress_.num_left;
  progress_.num_tokens_left += live.choices.front()->owner->request.prompt.size();
}

void LiveRequests::started(const Sequence& sequence) {
  Live& live = requests_.at(sequence.owner->id);
  if (live.waits) ++progress_.num_started;
  leave_queue(live);
}

void LiveRequests::ended(const Sequence& sequence) {
  const auto at = requests_.find(sequence.owner->id);
  if (--at->second.num_open > 0) return;
  leave_queue(at->second);
  ++progress_.num_ended;
  const RequestState& state = *sequence.owner;
  if (state.request.deadline) deadlines_.erase({*state.request.deadline, state.id});
  requests_.erase(at);
}

std::vector<std::shared_ptr<Sequence>> LiveRequests::choices_of(RequestId id) const {
  std::vector<std::shared_ptr<Sequence>> open;
  const auto at = requests_.find(id);
  if (at == requests_.end()) return open;
  for (const auto& sequence : at->second.choices) {
    if (sequence->finish == FinishReason::kNone) open.push_back(sequence);
  }
  return open;
}

std::vector<RequestId> LiveRequests::expired(Clock::time_point now) const {
  std::vector<RequestId> ids;
  for (const auto& [deadline, id] : deadlines_) {
    if (deadline > now) break;
    ids.push_back(id);
  }
  return ids;
}

}  // namespace mortise
