#include "schedulers/prefix_group/admission.hpp"

#include <algorithm>
#include <cmath>

namespace mortise::prefix_group {
namespace {

// Waiting for a prefix delays a request by a step or more, so the prefix must save at least this share of its work.
constexpr int32_t kMinSavedShare = 8;  // an eighth
// A relative of the last group is preferred if the prefix that both share is at least this share of its tokens.
constexpr int32_t kMinRelatedShare = 4;  // a quarter
// The mix is corrected if the admitted share of prompt rows, or of decode rows, is below this fraction of their share
// among waiting requests.
constexpr double kMixTolerance = 0.8;
// The most requests that are examined for one choice, so that a plan's cost does not grow with the queue.
constexpr int32_t kMaxLookedAt = 64;
constexpr uint64_t kNoPlan = UINT64_MAX;  // differs from the serial of every plan

}  // namespace

Admission::Admission(Backlog& backlog, const mortise_schedule_view& view, const scheduling::Limits& limits,
                     uint64_t serial)
    : backlog_(backlog), view_(view), seq_budget_(std::min(view.seq_budget, limits.max_num_seqs)), serial_(serial) {}

std::vector<scheduling::OrderEntry> Admission::order() {
  const auto num_running =
      static_cast<int32_t>(std::count(view_.states, view_.states + view_.num_seqs, MORTISE_SEQ_RUNNING));
  int32_t num_seen = 0;  // running requests of this or a better priority
  auto started = backlog_.started().begin();
  for (auto& [priority, priority_class] : backlog_.classes()) {
    for (; started != backlog_.started().end() && (*started)->priority_class == &priority_class; ++started) {
      const int32_t i = backlog_.view_index(**started);
      num_seen += i >= 0 && view_.states[i] == MORTISE_SEQ_RUNNING ? 1 : 0;
    }
    // What is left of the seq_budget, and the running requests of worse priority, which may be preempted.
    most_offered_ = seq_budget_ - num_running + (num_running - num_seen);
    add_started(priority_class);
    priority_class.credit_now = priority_class.credit;
    for (Turn& turn : priority_class.turns) {
      turn.rows_now = turn.rows_left;
      turn.in_turn_now = turn.in_turn;
      turn.used_up = false;
    }
    if (!is_full()) add_waiting(priority_class);
  }
  return std::move(order_);
}

// Adds the running requests, then the preempted ones.
void Admission::add_started(PriorityClass& priority_class) {
  for (const int32_t state : {MORTISE_SEQ_RUNNING, MORTISE_SEQ_WAITING}) {
    for (const Request* request : backlog_.started()) {
      const int32_t i = backlog_.view_index(*request);
      if (request->priority_class != &priority_class || i < 0 || view_.states[i] != state) continue;
      order_.push_back({i, std::exchange(keep_free_, 0)});
      num_offered_ += state == MORTISE_SEQ_WAITING ? 1 : 0;
    }
  }
}

void Admission::add_waiting(PriorityClass& priority_class) {
  next_ = priority_class.waiting.begin();
  has_no_relative_ = has_no_counterweight_ = false;
  for (Turn& turn : priority_class.turns) add_members(priority_class, turn);
  while (!is_full()) {
    Request* leader = choose_leader(priority_class);
    if (leader == nullptr) return;
    Turn* turn = priority_class.turn_of(*leader);
    if (turn == nullptr) turn = open_turn(*leader);
    if (!offer(*leader, turn)) return;
    if (turn != nullptr) add_members(priority_class, *turn);
  }
}

// Opens a turn for a group of several requests. Returns null for a single request, which needs no turn.
Turn* Admission::open_turn(Request& leader) {
  RequestTree& tree = *leader.tree;
  const NodeId node = leader.group != 0 ? RequestTree::kRoot : tree.group_of(leader.node);
  return tree.num_waiting(node) > 1 ? &backlog_.propose_turn(*leader.priority_class, tree, node) : nullptr;
}

void Admission::add_members(PriorityClass& priority_class, Turn& turn) {
  int32_t num_looked_at = 0;
  const int32_t most = std::min(kMaxLookedAt + seq_budget_, 2 * seq_budget_);
  turn.tree->visit_waiting(turn.node, [&](Ticket ticket) {
    if (is_full()) return false;
    Request& member = *priority_class.waiting.at(ticket);
    if (member.planned == serial_) return true;
    if (++num_looked_at > most) return false;
    if (!may_start(member)) {
      keep_room(member);
      return true;
    }
    return offer(member, &turn);
  });
}

// Adds the request to the order. Returns false if it may not pass the requests that came before it.
bool Admission::offer(Request& request, Turn* turn) {
  PriorityClass& priority_class = *request.priority_class;
  const int64_t rows = rows_of(request);
  Charge charge = Charge::kCredit;
  if (&request == oldest(priority_class)) {
    charge = Charge::kNothing;
    if (turn != nullptr) {
      turn->in_turn_now = true;
      turn->rows_now = backlog_.rows_per_turn();
    }
  } else if (turn != nullptr && turn->in_turn_now) {
    charge = Charge::kTurn;
    turn->used_up = turn->rows_now < rows;
    if (turn->used_up) return false;
    turn->rows_now -= rows;
  } else if (priority_class.credit_now < rows) {
    return false;
  }
  priority_class.credit_now = charge == Charge::kCredit
                                  ? priority_class.credit_now - rows
                                  : std::min(priority_class.credit_now + rows, backlog_.rows_per_turn());
  request.planned = serial_;
  request.tree->mark(request.node, serial_, request.id);
  order_.push_back({backlog_.view_index(request), std::exchange(keep_free_, 0)});
  starts_.push_back({request.id, turn == nullptr ? 0 : turn->id, rows, charge});
  ++num_offered_;
  return true;
}

// Returns how many tokens of the request's prefix will be cached once the computing requests, and those offered in the
// plan of `serial`, have run their prompts.
RequestTree::Shared Admission::to_come(const Request& request, uint64_t serial) const {
  RequestTree::Shared shared = request.tree->shared_with_computing(request.node, serial);
  shared.num_tokens = std::min(shared.num_tokens, request.num_tokens - 1) / view_.block_size * view_.block_size;
  return shared;
}

// Called when no other request computes the prefix any more. If the prefix was not cached although the leader has
// started, the request stops waiting for others. If the leader did not start, it may wait again.
void Admission::judge_leader(Request& request) {
  if (to_come(request, kNoPlan).num_tokens >= request.promised) return;
  const Request* leader = backlog_.find(request.leader);
  const bool has_tried = leader == nullptr || leader->started();
  request.follows = has_tried && num_cached(request) < request.promised ? Follows::kNoLonger : Follows::kWillingly;
}

bool Admission::may_start(Request& request) {
  if (!is_visible(request)) return false;
  const int32_t cached = num_cached(request);
  if (request.follows == Follows::kHeldBack) judge_leader(request);
  if (request.follows == Follows::kNoLonger) return true;
  const RequestTree::Shared shared = to_come(request, serial_);
  const int32_t saved = shared.num_tokens - cached;
  if (saved < std::max(view_.block_size, (request.num_tokens - cached) / kMinSavedShare)) return true;
  request.follows = Follows::kHeldBack;
  request.promised = shared.num_tokens;
  request.leader = shared.id;
  return false;
}

void Admission::keep_room(const Request& request) {
  const int32_t own = request.num_tokens - to_come(request, serial_).num_tokens;
  keep_free_ += (own + view_.block_size - 1) / view_.block_size + 1;
  ++num_offered_;  // the held-back request will count against the seq_budget too
}

int64_t Admission::rows_of(const Request& request) const {
  return int64_t{request.num_tokens} - num_cached(request) + request.max_new_tokens;
}

Request* Admission::oldest(PriorityClass& priority_class) {
  while (next_ != priority_class.waiting.end() && next_->second->planned == serial_) ++next_;
  return next_ == priority_class.waiting.end() ? nullptr : next_->second;
}

Request* Admission::choose_leader(PriorityClass& priority_class) {
  Request* first = oldest(priority_class);
  if (first == nullptr) return nullptr;
  const auto affords = [&](const Request* request) {
    return request != nullptr && rows_of(*request) <= priority_class.credit_now;
  };
  if (Request* relative = relative_of_last(priority_class); affords(relative)) return relative;
  if (Request* other = counterweight(priority_class, *first); affords(other)) return other;
  if (may_start(*first)) return first;
  Request* next = next_outside_of_turns(priority_class);
  return affords(next) ? next : nullptr;
}

Request* Admission::relative_of_last(PriorityClass& priority_class) {
  if (priority_class.last_tree == nullptr || has_no_relative_) return nullptr;
  const RequestTree& tree = *priority_class.last_tree;
  const auto unhinted = priority_class.trees.find(0);
  const bool is_hinted = unhinted == priority_class.trees.end() || &tree != &unhinted->second;
  const auto hinted = [&](NodeId node) { return node == RequestTree::kRoot && is_hinted; };
  Request* found = nullptr;
  for (NodeId node = priority_class.last_node; node != kNoNode && found == nullptr; node = tree.parent(node)) {
    if (tree.blocks_to(node) == 0 && !hinted(node)) continue;
    int32_t num_looked_at = 0;
    tree.visit_waiting(node, [&](Ticket ticket) {
      Request& request = *priority_class.waiting.at(ticket);
      if (request.planned == serial_) return ++num_looked_at < kMaxLookedAt;
      const bool related = hinted(node) || tree.blocks_to(node) * kMinRelatedShare >= request.num_tokens;
      if (related && priority_class.turn_of(request) == nullptr && may_start(request)) found = &request;
      return found == nullptr && ++num_looked_at < kMaxLookedAt;
    });
  }
  has_no_relative_ = found == nullptr;
  return found;
}

// Returns null unless the oldest request would move the admitted mix of prompt and decode rows away from the waiting
// mix. Then returns the request that moves it back most, or the first request of its group.
Request* Admission::counterweight(PriorityClass& priority_class, const Request& first) {
  const double waiting = priority_class.waiting_prompt + priority_class.waiting_new,
               admitted = priority_class.admitted_prompt + priority_class.admitted_new;
  if (waiting <= 0 || admitted <= 0 || has_no_counterweight_) return nullptr;
  const double wanted_share = priority_class.waiting_new / waiting,
               admitted_share = priority_class.admitted_new / admitted;
  const auto lacks = [](double share, double of_all) { return share < kMixTolerance * of_all; };
  const bool lacks_decodes = lacks(admitted_share, wanted_share) && lacks(first.share, wanted_share);
  const bool lacks_prompts = lacks(1 - admitted_share, 1 - wanted_share) && lacks(1 - first.share, 1 - wanted_share);
  if (!lacks_decodes && !lacks_prompts) return nullptr;
  int32_t num_looked_at = 0;
  const auto take = [&](const std::pair<double, Ticket>& entry) -> Request* {
    Request* request = priority_class.waiting.at(entry.second);
    if (request->planned == serial_) return nullptr;
    if (request->group == 0) {
      request = priority_class.waiting.at(request->tree->oldest(request->tree->group_of(request->node)));
    }
    const bool serves =
        request->planned != serial_ && priority_class.turn_of(*request) == nullptr && may_start(*request);
    return serves ? request : nullptr;
  };
  const auto search = [&](auto begin, auto end) -> Request* {
    for (; begin != end && ++num_looked_at < kMaxLookedAt; ++begin) {
      if (Request* request = take(*begin)) return request;
    }
    has_no_counterweight_ = true;
    return nullptr;
  };
  return lacks_decodes ? search(priority_class.by_share.rbegin(), priority_class.by_share.rend())
                       : search(priority_class.by_share.begin(), priority_class.by_share.end());
}

// Finds a request outside all turns, while the oldest request waits for a prefix that another request computes.
Request* Admission::next_outside_of_turns(PriorityClass& priority_class) {
  int32_t num_looked_at = 0;
  for (const auto& [ticket, request] : priority_class.waiting) {
    if (request->planned == serial_ || !is_visible(*request)) continue;
    if (++num_looked_at > kMaxLookedAt) return nullptr;
    if (priority_class.turn_of(*request) == nullptr && may_start(*request)) return request;
  }
  return nullptr;
}

}  // namespace mortise::prefix_group
