// plugins/schedulers/prefix_group/admission.hpp: the order in which a step would start what waits. By class:
//
//   1 what was preempted, in the order in which it started
//   2 members of the open turns, neighbours in the tree together
//   3 new turns: the group of the class's oldest; or out of turn, on credit, a relative of the last group (they share
//     what is in the cache now), or whoever brings the mix of prompt and decode rows nearer to that of all who wait
//
// Who shares a prefix with one that is computing it is held back until it is in the cache, and blocks are kept free for
// it, so that a group once opened comes in whole, as far as there is room.
#pragma once

#include <vector>

#include "schedulers/common/planner.hpp"
#include "schedulers/prefix_group/backlog.hpp"

namespace mortise::prefix_group {

class Admission {
 public:
  // `serial` is another one for each. REQUIRES: the backlog is settled with `view`; both outlive it.
  Admission(Backlog& backlog, const mortise_schedule_view& view, const scheduling::Limits& limits, uint64_t serial);

  // All that runs, and who may start. Call once.
  std::vector<scheduling::Place> order();
  // Of the order's sequences that wait and have not started: what it means for turns and credit.
  const std::vector<PlannedStart>& starts() const { return starts_; }

 private:
  void add_started(PriorityClass& of);
  void add_waiting(PriorityClass& of);
  void add_members(PriorityClass& of, Turn& turn);
  bool offer(Request& request, Turn* turn);
  void keep_room(const Request& request);
  Request* choose_leader(PriorityClass& of);
  Request* relative_of_last(PriorityClass& of);
  Request* counterweight(PriorityClass& of, const Request& oldest);
  Request* next_outside_of_turns(PriorityClass& of);
  Turn* open_turn(Request& leader);

  bool is_full() const { return num_offered_ >= most_offered_; }
  bool may_start(Request& request);
  bool is_visible(const Request& request) const { return backlog_.view_index(request) >= 0; }
  Request* oldest(PriorityClass& of);
  int32_t num_cached(const Request& request) const { return view_.num_cached[backlog_.view_index(request)]; }
  void judge_leader(Request& request);
  RequestTree::Shared to_come(const Request& request, uint64_t serial) const;
  int64_t rows_of(const Request& request) const;

  Backlog& backlog_;
  const mortise_schedule_view& view_;
  const int32_t seq_budget_;
  const uint64_t serial_;
  std::vector<scheduling::Place> order_;
  std::vector<PlannedStart> starts_;
  int64_t keep_free_ = 0;  // for those that were held back since the last place
  int32_t num_offered_ = 0, most_offered_ = 0;
  // Of the class that is looked at: all that wait before this one are offered, or it has none to prefer.
  std::map<Ticket, Request*>::const_iterator next_;
  bool has_no_relative_ = false, has_no_counterweight_ = false;
};

}  // namespace mortise::prefix_group
