// plugins/schedulers/prefix_group/backlog.hpp: the requests that the host has reported, and whose turn it is. A Request
// here is one sequence of the ABI.
//
//   Class    The requests of one priority. Each class has its own queue, a tree for requests without a group hint, and
//            a tree for each hint.
//   Turn     A group that is being admitted. When a member is the oldest request of its class, it opens the turn, or
//            opens it again, for `rows_per_turn` rows of younger members that pass other requests. The turn ends when
//            no member waits, or when these rows are used up.
//   Credit   Rows that may pass the oldest request out of turn: at most `rows_per_turn`, earned by rows admitted in
//            turn.
//
// The rows of a request are the most that it can run from its admission to its end.
//
// The host may replace a plan, so a plan changes nothing here. settle() books a start when a view, or an end, shows
// that it happened. Hence `plan` may be asked twice.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mortise/scheduler.h"
#include "schedulers/prefix_group/request_tree.hpp"

namespace mortise::prefix_group {

struct PriorityClass;

// A turn of a group. Invariant: its node is kept in the tree while it exists.
struct Turn {
  uint64_t id = 0;
  RequestTree* tree = nullptr;
  NodeId node = kNoNode;    // kept
  bool is_proposed = true;  // by a plan that may not have run
  bool in_turn = false;     // false: its members pass on credit
  bool used_up = false;     // the last plan refused a member because too few rows were left
  int64_t rows_left = 0;
  int64_t rows_now = 0;  // rows_now and in_turn_now belong to the plan that is made now
  bool in_turn_now = false;
  uint64_t pin_holder = 0;
  bool may_pin = true;  // false: the host had to end its pin
};

enum class Follows { kWillingly, kHeldBack, kNoLonger };

// One sequence of the ABI. Invariant: it is in `tree` while it waits and while its prompt runs. For one thread at a
// time.
struct Request {
  uint64_t id = 0;
  Ticket ticket = 0;
  PriorityClass* priority_class = nullptr;
  RequestTree* tree = nullptr;  // null: it has left the tree
  NodeId node = kNoNode;
  uint64_t group = 0;
  int32_t num_tokens = 0;
  int32_t max_new_tokens = 0;
  double share = 0;  // the share of generated tokens in its rows
  int64_t num_unshared = 0;
  std::size_t index = 0;  // into Backlog::living_
  uint64_t rank = 0;      // in the order of starts; 0: it has not started
  uint64_t turn = 0;      // the turn in which it started
  uint64_t planned = 0;   // serial of the last plan that would start it
  // While the request is held back: the number of prefix tokens that its leader is expected to cache. If the leader has
  // started and the tokens are neither cached nor being computed, the request is not held back again.
  Follows follows = Follows::kWillingly;
  int32_t promised = 0;
  uint64_t leader = 0;  // 0: a request that already computes
  int32_t pinned_tokens = 0;
  uint64_t pin_released_in = 0;  // step + 1; the pin is gone from the next step on

  bool started() const { return rank != 0; }
};

// The requests of one priority. Invariant: trees have the requests that wait or run their prompt. For one thread at a
// time.
struct PriorityClass {
  int32_t priority = 0;
  std::size_t num_requests = 0;
  std::map<Ticket, Request*> waiting;  // requests that have not started
  std::set<std::pair<double, Ticket>> by_share;
  std::map<uint64_t, RequestTree> trees;  // by hint
  std::list<Turn> turns;
  int64_t credit = 0, credit_now = 0;
  double waiting_prompt = 0, waiting_new = 0;    // tokens to run and to generate
  double admitted_prompt = 0, admitted_new = 0;  // the same of requests admitted lately
  RequestTree* last_tree = nullptr;              // of the turn opened last
  NodeId last_node = kNoNode;                    // kept

  Turn* turn_of(const Request& request);
};

enum class Charge { kNothing, kTurn, kCredit };

struct PlannedStart {
  uint64_t id;
  uint64_t turn;  // 0: none
  int64_t rows;
  Charge charge;
};

// The requests that the scheduler knows, and what it has booked for each. Invariant: a plan books nothing; settle()
// books the result of the last plan from the next view, so a plan that the host changed is booked as it ran. One
// thread: the host makes one call at a time.
class Backlog {
 public:
  void add(uint64_t id, std::span<const int32_t> tokens, int32_t max_new_tokens, int32_t priority, uint64_t group);
  void end(uint64_t id);
  void pin_resident(uint64_t id, int32_t num_tokens);
  void pin_evicted(uint64_t id);

  // Books everything that has happened since the last plan. Throws a Failure if the view names a sequence that was not
  // added.
  void settle(const mortise_schedule_view& view, int64_t rows_per_turn);
  // Returns the request's index in the view of the last settle(); -1: the view left the request out.
  int32_t view_index(const Request& request) const { return living_[request.index].view_index; }

  Turn& propose_turn(PriorityClass& priority_class, RequestTree& tree, NodeId node);
  void set_planned(std::vector<PlannedStart> planned) { planned_ = std::move(planned); }

  std::map<int32_t, PriorityClass>& classes() { return classes_; }
  // Returns the requests that have started, by priority and rank.
  const std::vector<Request*>& started() const { return started_; }
  Request* find(uint64_t id);
  // Returns the ids of requests with a pin.
  const std::set<uint64_t>& pinned() const { return pinned_; }
  int64_t rows_per_turn() const { return rows_per_turn_; }
  std::size_t num_requests() const { return requests_.size(); }
  std::size_t num_nodes() const;  // of all trees, without their roots

 private:
  struct Living {
    uint64_t id;
    Request* request;  // null: it has ended
    int32_t view_index;
  };

  void forget_ended();
  void find_in_view(const mortise_schedule_view& view);
  void start(Request& request, const PlannedStart* planned);
  void book(Request& request, const PlannedStart& planned);
  void leave_tree(Request& request);
  void leave_queue(Request& request);
  void follow_started(const mortise_schedule_view& view);
  void close_turns(PriorityClass& priority_class, bool proposals_only);
  void forget_last(PriorityClass& priority_class);
  void forget_released_pins();

  int32_t block_size_ = 1;
  int64_t rows_per_turn_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Request>> requests_;
  std::map<int32_t, PriorityClass> classes_;
  std::vector<Living> living_;  // in order of arrival; up to half of the entries have ended
  std::vector<Request*> started_;
  std::vector<PlannedStart> planned_;
  std::set<uint64_t> pinned_;
  uint64_t settled_ = 0;  // step + 1
  Ticket last_ticket_ = 0, last_ticket_planned_ = 0;
  uint64_t num_starts_ = 0, num_turns_ = 0;
};

}  // namespace mortise::prefix_group
