// plugins/schedulers/prefix_group/admission.hpp: the order in which a step would admit waiting requests. In each class:
//
//   1 preempted requests, in the order in which they first started
//   2 members of the open turns; neighbours in the tree come together
//   3 new turns: the group of the class's oldest request; or, out of turn and on credit, a relative of the last group,
//     because their shared prefix is in the cache now, or a request that brings the mix of prompt and decode rows
//     nearer to that of all waiting requests
//
// A request is held back while another request computes a prefix that both share. Blocks are kept free for it
// meanwhile, so that the whole group is admitted together as far as there is room.
#pragma once

#include <vector>

#include "schedulers/common/planner.hpp"
#include "schedulers/prefix_group/backlog.hpp"

namespace mortise::prefix_group {

// One admission order, for one plan. Invariant: a request is in the order at most once. One thread: the host makes one
// call at a time.
class Admission {
 public:
  // `serial` is unique to each Admission. REQUIRES: the backlog is settled with `view`; both outlive this.
  Admission(Backlog& backlog, const mortise_schedule_view& view, const scheduling::Limits& limits, uint64_t serial);

  // Returns all running requests, and the waiting requests that the step may admit. Call once.
  std::vector<scheduling::OrderEntry> order();
  // Returns, for each request in the order that has not started yet, its turn, its rows, and whether the rows count
  // against the turn or the credit.
  const std::vector<PlannedStart>& starts() const { return starts_; }

 private:
  void add_started(PriorityClass& priority_class);
  void add_waiting(PriorityClass& priority_class);
  void add_members(PriorityClass& priority_class, Turn& turn);
  bool offer(Request& request, Turn* turn);
  void keep_room(const Request& request);
  Request* choose_leader(PriorityClass& priority_class);
  Request* relative_of_last(PriorityClass& priority_class);
  Request* counterweight(PriorityClass& priority_class, const Request& oldest);
  Request* next_outside_of_turns(PriorityClass& priority_class);
  Turn* open_turn(Request& leader);

  bool is_full() const { return num_offered_ >= most_offered_; }
  bool may_start(Request& request);
  bool is_visible(const Request& request) const { return backlog_.view_index(request) >= 0; }
  Request* oldest(PriorityClass& priority_class);
  int32_t num_cached(const Request& request) const { return view_.num_cached[backlog_.view_index(request)]; }
  void judge_leader(Request& request);
  RequestTree::Shared to_come(const Request& request, uint64_t serial) const;
  int64_t rows_of(const Request& request) const;

  Backlog& backlog_;
  const mortise_schedule_view& view_;
  const int32_t seq_budget_;
  const uint64_t serial_;
  std::vector<scheduling::OrderEntry> order_;
  std::vector<PlannedStart> starts_;
  int64_t keep_free_ = 0;  // blocks for requests that were held back since the last entry of the order
  int32_t num_offered_ = 0, most_offered_ = 0;
  // State of the current class. All waiting requests before `next_` are in the order already. The flags say that a
  // search for a preferred request has found none.
  std::map<Ticket, Request*>::const_iterator next_;
  bool has_no_relative_ = false, has_no_counterweight_ = false;
};

}  // namespace mortise::prefix_group
