#include "schedulers/prefix_group/pins.hpp"

#include <algorithm>

namespace mortise::prefix_group {
namespace {

struct Pin {
  Turn* turn;
  Request* holder;
  int32_t num_tokens;
};

// Chooses the pins of one plan. Invariant: at most one pin for each turn. One thread.
class Pins {
 public:
  Pins(Backlog& backlog, const mortise_schedule_view& view, const scheduling::Planner& planner)
      : backlog_(backlog), view_(view), planner_(planner) {}

  void collect() {
    for (auto& [priority, priority_class] : backlog_.classes()) {
      for (Turn& turn : priority_class.turns) collect(priority_class, turn);
    }
  }

  // A request that runs alone must find all blocks that it will ever need beside the pins of other requests. Drops
  // these pins if it would not.
  void leave_room_for(std::span<const scheduling::OrderEntry> order) {
    if (pins_.empty()) return;
    for (const scheduling::OrderEntry& entry : order) {
      const Request* request = backlog_.find(view_.seq_ids[entry.index]);
      const int64_t needed = blocks(int64_t{request->num_tokens} + request->max_new_tokens);
      const auto is_others = [&](const Pin& pin) { return !shares(*request, *pin.turn); };
      int64_t pinned = 0;
      for (const Pin& pin : pins_) pinned += is_others(pin) ? pin.num_tokens / view_.block_size : 0;
      if (needed + pinned <= view_.num_blocks) continue;
      std::erase_if(pins_, is_others);
    }
  }

  void write(mortise_schedule_plan& out) const {
    const auto add = [&](const Request& request, int32_t num_tokens) {
      out.pins[out.num_pins] = backlog_.view_index(request);
      out.pin_tokens[out.num_pins++] = num_tokens;
    };
    for (const Pin& pin : pins_) {
      if (pin.holder->pinned_tokens < pin.num_tokens) add(*pin.holder, pin.num_tokens);
    }
    for (const uint64_t id : backlog_.pinned()) {
      Request& request = *backlog_.find(id);
      const bool is_wanted =
          std::any_of(pins_.begin(), pins_.end(), [&](const Pin& pin) { return pin.holder == &request; });
      if (is_wanted || backlog_.view_index(request) < 0) continue;
      add(request, 0);
      request.pin_released_in = view_.step_id + 1;
    }
  }

 private:
  int64_t blocks(int64_t tokens) const { return (tokens + view_.block_size - 1) / view_.block_size; }

  static bool shares(const Request& request, const Turn& turn) {
    if (request.tree != nullptr) return request.tree == turn.tree && turn.tree->is_below(request.node, turn.node);
    return request.turn == turn.id;
  }

  // Returns whether the request can hold a pin: it waits, this plan does not start it, and the prefix is cached.
  bool can_hold(const Request& request, int32_t num_tokens) const {
    const int32_t i = backlog_.view_index(request);
    return !request.started() && i >= 0 && !planner_.schedules(i) &&
           (request.pinned_tokens >= num_tokens || view_.num_cached[i] >= num_tokens);
  }

  void collect(PriorityClass& priority_class, Turn& turn) {
    if (!turn.may_pin || turn.tree->num_waiting(turn.node) == 0) return;
    const int32_t prefix =
        turn.node == RequestTree::kRoot ? turn.tree->common_prefix(turn.node) : turn.tree->depth(turn.node);
    const int32_t num_tokens = prefix / view_.block_size * view_.block_size;
    if (num_tokens == 0) return;
    Request* holder = backlog_.find(turn.pin_holder);
    if (holder == nullptr || !can_hold(*holder, num_tokens)) {
      holder = priority_class.waiting.at(turn.tree->last_waiting(turn.node));
    }
    const bool holds_pin = can_hold(*holder, num_tokens);
    turn.pin_holder = holds_pin ? holder->id : 0;
    if (holds_pin) pins_.push_back({&turn, holder, num_tokens});
  }

  Backlog& backlog_;
  const mortise_schedule_view& view_;
  const scheduling::Planner& planner_;
  std::vector<Pin> pins_;
};

}  // namespace

void plan_pins(Backlog& backlog, const mortise_schedule_view& view, const scheduling::Planner& planner,
               std::span<const scheduling::OrderEntry> order, mortise_schedule_plan& out) {
  Pins pins(backlog, view, planner);
  pins.collect();
  pins.leave_room_for(order);
  pins.write(out);
}

}  // namespace mortise::prefix_group
