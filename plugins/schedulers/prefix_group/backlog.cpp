#include "schedulers/prefix_group/backlog.hpp"

#include <algorithm>

#include "mortise/plugin.hpp"

namespace mortise::prefix_group {

Turn* PriorityClass::turn_of(const Request& request) {
  for (Turn& turn : turns) {
    if (turn.tree == request.tree && turn.tree->is_below(request.node, turn.node)) return &turn;
  }
  return nullptr;
}

Request* Backlog::find(uint64_t id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

std::size_t Backlog::num_nodes() const {
  std::size_t count = 0;
  for (const auto& [priority, priority_class] : classes_) {
    for (const auto& [group, tree] : priority_class.trees) count += tree.num_nodes() - 1;
  }
  return count;
}

void Backlog::add(uint64_t id, std::span<const int32_t> tokens, int32_t max_new_tokens, int32_t priority,
                  uint64_t group) {
  const auto [at, is_new] = requests_.emplace(id, std::make_unique<Request>());
  if (!is_new) throw Failure(MORTISE_INVALID_ARGUMENT, "events", "sequence " + std::to_string(id) + " is added twice");
  Request& request = *at->second;
  PriorityClass& priority_class = classes_[priority];
  priority_class.priority = priority;
  if (priority_class.num_requests == 0) priority_class.credit = INT64_MAX;  // settle() reduces it to rows_per_turn
  ++priority_class.num_requests;
  RequestTree& tree = priority_class.trees.try_emplace(group, block_size_).first->second;
  request.id = id;
  request.ticket = ++last_ticket_;
  request.priority_class = &priority_class;
  request.tree = &tree;
  request.group = group;
  request.num_tokens = static_cast<int32_t>(tokens.size());
  request.max_new_tokens = max_new_tokens;
  request.num_unshared = std::max<int64_t>(1, request.num_tokens - tree.shared_with(tokens));
  request.share = max_new_tokens / static_cast<double>(max_new_tokens + request.num_unshared);
  request.index = living_.size();
  living_.push_back({id, &request, -1});
  request.node = tree.insert(tokens, request.ticket);
  priority_class.waiting.emplace(request.ticket, &request);
  priority_class.by_share.emplace(request.share, request.ticket);
  priority_class.waiting_prompt += static_cast<double>(request.num_unshared);
  priority_class.waiting_new += max_new_tokens;
}

void Backlog::leave_queue(Request& request) {
  PriorityClass& priority_class = *request.priority_class;
  if (priority_class.waiting.erase(request.ticket) == 0) return;
  priority_class.by_share.erase({request.share, request.ticket});
  priority_class.waiting_prompt -= static_cast<double>(request.num_unshared);
  priority_class.waiting_new -= request.max_new_tokens;
}

void Backlog::leave_tree(Request& request) {
  if (request.tree == nullptr) return;
  RequestTree& tree = *request.tree;
  if (request.started()) {
    tree.finish(request.node);
  } else {
    tree.cancel(request.node, request.ticket);
  }
  request.tree = nullptr;
  if (tree.empty()) request.priority_class->trees.erase(request.group);
}

void Backlog::end(uint64_t id) {
  Request* request = find(id);
  if (request == nullptr) return;
  // The request may have started and ended in the one step of the last plan.
  const auto planned =
      std::find_if(planned_.begin(), planned_.end(), [&](const PlannedStart& start) { return start.id == id; });
  if (planned != planned_.end()) {
    if (!request->started()) book(*request, *planned);
    planned_.erase(planned);
  }
  leave_queue(*request);
  leave_tree(*request);
  if (request->started()) std::erase(started_, request);
  pinned_.erase(id);
  living_[request->index].request = nullptr;
  PriorityClass& priority_class = *request->priority_class;
  if (--priority_class.num_requests == 0) classes_.erase(priority_class.priority);
  requests_.erase(id);
}

void Backlog::pin_resident(uint64_t id, int32_t num_tokens) {
  Request* request = find(id);
  if (request == nullptr) return;
  request->pinned_tokens = num_tokens;
  request->pin_released_in = 0;
  pinned_.insert(id);
}

void Backlog::pin_evicted(uint64_t id) {
  Request* request = find(id);
  if (request == nullptr) return;
  request->pinned_tokens = 0;
  pinned_.erase(id);
  for (Turn& turn : request->priority_class->turns) {
    if (turn.pin_holder == id) turn.may_pin = false;
  }
}

void Backlog::forget_ended() {
  std::erase_if(living_, [](const Living& living) { return living.request == nullptr; });
  for (std::size_t index = 0; index < living_.size(); ++index) living_[index].request->index = index;
}

// Finds each request's index in the view. The view has the live requests in order of arrival, and may leave some out.
void Backlog::find_in_view(const mortise_schedule_view& view) {
  if (living_.size() > 2 * requests_.size()) forget_ended();
  for (Living& living : living_) living.view_index = -1;
  std::size_t at = 0;
  for (int32_t i = 0; i < view.num_seqs; ++i) {
    while (at < living_.size() && (living_[at].request == nullptr || living_[at].id != view.seq_ids[i])) ++at;
    if (at == living_.size()) {
      throw Failure(MORTISE_INVALID_ARGUMENT, "plan",
                    "sequence " + std::to_string(view.seq_ids[i]) + " was not added, or not in this order");
    }
    living_[at++].view_index = i;
  }
}

void Backlog::start(Request& request, const PlannedStart* planned) {
  PriorityClass& priority_class = *request.priority_class;
  if (planned != nullptr) book(request, *planned);
  leave_queue(request);
  priority_class.admitted_prompt += static_cast<double>(request.num_unshared);
  priority_class.admitted_new += request.max_new_tokens;
  // old counts are halved, so that only recent admissions matter
  if (priority_class.admitted_prompt + priority_class.admitted_new > 2 * static_cast<double>(rows_per_turn_)) {
    priority_class.admitted_prompt /= 2;
    priority_class.admitted_new /= 2;
  }
  request.tree->start(request.node, request.ticket);
  request.rank = ++num_starts_;
  started_.push_back(&request);
}

void Backlog::book(Request& request, const PlannedStart& planned) {
  PriorityClass& priority_class = *request.priority_class;
  const auto turn = std::find_if(priority_class.turns.begin(), priority_class.turns.end(),
                                 [&](const Turn& t) { return t.id == planned.turn; });
  if (planned.charge == Charge::kCredit) {
    priority_class.credit -= planned.rows;
  } else {
    priority_class.credit = std::min(priority_class.credit + planned.rows, rows_per_turn_);
  }
  if (turn == priority_class.turns.end()) return;
  request.turn = turn->id;
  if (std::exchange(turn->is_proposed, false)) {
    forget_last(priority_class);
    priority_class.last_tree = turn->tree;
    priority_class.last_node = turn->node;
    priority_class.last_tree->keep(priority_class.last_node);
  }
  if (planned.charge == Charge::kNothing) {
    turn->in_turn = true;
    turn->used_up = false;
    turn->rows_left = rows_per_turn_;
  } else if (planned.charge == Charge::kTurn) {
    turn->rows_left -= planned.rows;
  }
}

void Backlog::forget_released_pins() {
  std::erase_if(pinned_, [&](uint64_t id) {
    Request& request = *find(id);
    if (std::exchange(request.pin_released_in, 0) == 0) return false;
    request.pinned_tokens = 0;
    return true;
  });
}

void Backlog::forget_last(PriorityClass& priority_class) {
  if (priority_class.last_tree == nullptr) return;
  priority_class.last_tree->let_go(priority_class.last_node);
  priority_class.last_tree = nullptr;
}

// A request leaves the tree when its prompt has run, because it computes nothing for others then, or when it is
// preempted, because it restarts before all requests that have not started.
void Backlog::follow_started(const mortise_schedule_view& view) {
  for (Request* request : started_) {
    const int32_t i = view_index(*request);
    const bool computes = i >= 0 && view.states[i] == MORTISE_SEQ_RUNNING && view.num_computed[i] < request->num_tokens;
    if (!computes) leave_tree(*request);
  }
  std::sort(started_.begin(), started_.end(), [](const Request* a, const Request* b) {
    return std::pair(a->priority_class->priority, a->rank) < std::pair(b->priority_class->priority, b->rank);
  });
}

// Closes turns that have ended, and turns that were only proposed: a proposed turn is void even if the same step is
// planned again.
void Backlog::close_turns(PriorityClass& priority_class, bool proposals_only) {
  std::erase_if(priority_class.turns, [&](const Turn& turn) {
    if (proposals_only && !turn.is_proposed) return false;
    const bool waits = turn.tree->num_waiting(turn.node) > 0;
    // If no member was left at the last plan, requests that came later do not belong to this turn.
    const bool is_empty = !waits || turn.tree->oldest(turn.node) > last_ticket_planned_;
    const Request* first = waits ? priority_class.waiting.begin()->second : nullptr;
    const bool leads = waits && first->tree == turn.tree && turn.tree->is_below(first->node, turn.node);
    if (!turn.is_proposed && !is_empty && (!turn.used_up || !turn.in_turn || leads)) return false;
    turn.tree->let_go(turn.node);
    return true;
  });
  // Drops trees that only a turn, or the memory of the last turn, still needed.
  if (priority_class.last_tree != nullptr && priority_class.last_tree->num_requests() == 0) forget_last(priority_class);
  std::erase_if(priority_class.trees, [](const auto& entry) { return entry.second.empty(); });
}

void Backlog::settle(const mortise_schedule_view& view, int64_t rows_per_turn) {
  rows_per_turn_ = rows_per_turn;
  if (std::exchange(block_size_, view.block_size) != view.block_size) {
    for (auto& [priority, priority_class] : classes_) {
      for (auto& [group, tree] : priority_class.trees) tree.set_block_size(block_size_);
    }
  }
  find_in_view(view);
  const std::vector<PlannedStart> planned = std::exchange(planned_, {});
  for (const PlannedStart& start : planned) {
    Request& request = *find(start.id);  // end() has removed requests that ended
    const int32_t i = view_index(request);
    if (!request.started() && i >= 0 && view.states[i] == MORTISE_SEQ_RUNNING) this->start(request, &start);
  }
  for (int32_t i = 0, at = 0; i < view.num_seqs; ++i) {  // requests that the host has started by itself
    if (view.states[i] != MORTISE_SEQ_RUNNING) continue;
    while (living_[static_cast<std::size_t>(at)].view_index != i) ++at;
    Request& request = *living_[static_cast<std::size_t>(at)].request;
    if (!request.started()) start(request, nullptr);
  }
  follow_started(view);
  const bool again = std::exchange(settled_, view.step_id + 1) == view.step_id + 1;
  if (!again) forget_released_pins();
  for (auto& [priority, priority_class] : classes_) {
    priority_class.credit = std::min(priority_class.credit, rows_per_turn_);
    close_turns(priority_class, again);
  }
  last_ticket_planned_ = last_ticket_;
}

Turn& Backlog::propose_turn(PriorityClass& priority_class, RequestTree& tree, NodeId node) {
  Turn& turn = priority_class.turns.emplace_back();
  turn.id = ++num_turns_;
  turn.tree = &tree;
  turn.node = node;
  tree.keep(node);
  return turn;
}

}  // namespace mortise::prefix_group
