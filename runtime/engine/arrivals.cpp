// Takes in everything that arrives between two steps: requests, aborts, deadlines, and orders for swaps and traces.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/engine.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// How often an idle engine checks whether the caller of a swap with verify_steps still waits.
constexpr auto kLookAgain = std::chrono::milliseconds(100);

// How long the engine is idle before it tries a step of another size. The first request after a start usually comes
// sooner.
constexpr auto kTryAfter = std::chrono::milliseconds(20);

}  // namespace

bool Engine::take_inbox() {
  if (live_.empty()) trace_.idle();
  const bool is_decided = verified_swap_ && verified_swap_->is_over();
  std::optional<Inbox::Clock::time_point> until;
  if (verified_swap_) until = std::min(verified_swap_->deadline(), Inbox::Clock::now() + kLookAgain);
  if (setup_->execution->has_untried_sizes()) {
    const Inbox::Clock::time_point idle = Inbox::Clock::now() + kTryAfter;
    until = until ? std::min(*until, idle) : idle;
  }
  const bool goes_on = take_requests(inbox_.take(/*waits=*/live_.empty() && !is_decided, until));
  while (!swap_orders_.empty()) {
    const std::shared_ptr<SwapOrder> order = std::move(swap_orders_.front());
    swap_orders_.pop_front();
    if (goes_on) {
      carry_out(order);
    } else {
      order->done.set_exception(std::make_exception_ptr(
          Error("the engine has ended before the swap could be made", ErrorCode::kUnavailable)));
    }
  }
  fall_back_from_broken();
  check_required_parts();  // parts may have failed before the inbox could refuse these requests
  drop_ended();
  return goes_on;
}

// Takes in all arrivals. Orders for swaps are only queued.
bool Engine::take_requests(Inbox::Arrivals arrivals) {
  std::ranges::move(arrivals.swaps, std::back_inserter(swap_orders_));
  for (const auto& order : arrivals.traces) change_trace(*order);
  trace_.begin(StepPhase::kInbox);
  for (const auto& state : arrivals.requests) add(state);
  for (const RequestId id : arrivals.aborted) {
    for (const auto& sequence : requests_.choices_of(id)) end(*sequence, FinishReason::kAborted);
  }
  if (requests_.any_deadline()) {
    for (const RequestId id : requests_.expired(LiveRequests::Clock::now())) {
      for (const auto& sequence : requests_.choices_of(id)) {
        fail_sequence(*sequence, "the request's deadline passed before it had ended", ErrorCode::kDeadlineExceeded);
      }
    }
  }
  if (arrivals.drain == Inbox::Drain::kIsOver) {
    fail_all("the engine is shutting down, and the time for running requests is over", ErrorCode::kUnavailable);
  }
  drop_ended();
  if (verified_swap_ && !arrivals.stops) {
    if (arrivals.drain != Inbox::Drain::kNone) {
      verified_swap_->refuse(ErrorCode::kUnavailable, "the engine is shutting down");
    }
    if (verified_swap_->order()->cancel.stop_requested()) {
      verified_swap_->refuse(ErrorCode::kConflict, "the client that asked for the swap no longer waits for it");
    }
    if (verified_swap_->deadline() <= Inbox::Clock::now()) {
      verified_swap_->refuse(ErrorCode::kConflict,
                             fmt::format("no step could be compared for {} s: verify_steps needs running requests",
                                         std::chrono::duration<double>(hooks_.verify_patience).count()));
    }
    if (verified_swap_->is_over()) settle_verified();
  }
  return !arrivals.stops;
}

void Engine::add(const std::shared_ptr<RequestState>& state) {
  stats_changed_ = true;
  std::vector<std::shared_ptr<Sequence>> choices;
  // Ids start at 1 and follow the order of submit(). The choices of a request have consecutive ids. `mortise bisect`
  // finds the sequences of a trace by this order.
  for (std::int32_t choice = 0; choice < state->request.sampling.n; ++choice) {
    choices.push_back(std::make_shared<Sequence>(next_sequence_++, state, choice, tokenizer_));
  }
  requests_.add(choices);
  for (auto& sequence : choices) {
    trace_.arrived(*sequence);
    setup_->drafting->welcome(*sequence);
    // The front end has checked the request, but a swap may have changed the limits since.
    if (const std::optional<std::string> why = misfit(*sequence, setup_->limits)) {
      fail_sequence(*sequence, "the pipeline has changed since the request arrived: " + *why, ErrorCode::kTooLarge);
      continue;
    }
    if (!sequence->wants_tokens() && !sequence->wants_scores()) {
      end(*sequence, FinishReason::kLength);
      continue;
    }
    setup_->planner->added(sequence);
    if (verified_swap_) verified_swap_->added(sequence);
    live_.push_back(std::move(sequence));
  }
}

}  // namespace mortise
