// runtime/engine/live_requests.hpp: indexes the live requests: finds the sequences of a request, and the requests whose
// deadline has passed, without a search through all. Engine's thread only.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/inbox.hpp"
#include "engine/sequence.hpp"

namespace mortise {

// Invariant: each request with a live choice has one entry here, and one in deadlines_ if it has a deadline. Engine's
// thread only.
class LiveRequests {
 public:
  using Clock = std::chrono::steady_clock;

  // REQUIRES: `choices` are all sequences of one request, at least one.
  void add(std::vector<std::shared_ptr<Sequence>> choices);
  // Called when a sequence runs for the first time, so its request no longer waits.
  void started(const Sequence& sequence);
  // Called when a choice has ended. The request is removed with its last choice.
  void ended(const Sequence& sequence);

  // Returns the choices of the request that have not ended; none if the id is unknown.
  std::vector<std::shared_ptr<Sequence>> choices_of(RequestId id) const;
  // Returns the requests whose deadline is at or before `now`.
  std::vector<RequestId> expired(Clock::time_point now) const;
  bool any_deadline() const { return !deadlines_.empty(); }

  Inbox::Progress take_progress() { return std::exchange(progress_, {}); }  // since the last call

 private:
  struct Live {
    std::vector<std::shared_ptr<Sequence>> choices;
    std::size_t num_open = 0;
    bool waits = true;
  };
  void leave_queue(Live& live);

  std::unordered_map<RequestId, Live> requests_;
  std::set<std::pair<Clock::time_point, RequestId>> deadlines_;
  Inbox::Progress progress_;
};

}  // namespace mortise
