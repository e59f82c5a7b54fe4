#include "conformance/scheduler_driver.hpp"

#include <algorithm>
#include <cstring>

#include "conformance/guarded_memory.hpp"
#include "mortise/scheduler.h"

namespace mortise::conformance {
namespace {

mortise_schedule_view copy_view(const mortise_schedule_view& view, ReadOnlyCopies& copies) {
  mortise_schedule_view copy = view;
  const std::int32_t n = view.num_seqs;
  copy.seq_ids = copies.copy(view.seq_ids, n);
  copy.states = copies.copy(view.states, n);
  copy.num_tokens = copies.copy(view.num_tokens, n);
  copy.num_computed = copies.copy(view.num_computed, n);
  copy.num_cached = copies.copy(view.num_cached, n);
  copy.num_cached_free_blocks = copies.copy(view.num_cached_free_blocks, n);
  copy.blocks_held = copies.copy(view.blocks_held, n);
  copy.blocks_freed_if_preempted = copies.copy(view.blocks_freed_if_preempted, n);
  copy.lookahead = copies.copy(view.lookahead, n);
  copy.priorities = copies.copy(view.priorities, n);
  copy.arrivals = copies.copy(view.arrivals, n);
  copy.groups = copies.copy(view.groups, n);
  copy.cached_free_with = copies.copy(view.cached_free_with, n);
  copy.cached_free_shared = copies.copy(view.cached_free_shared, n);
  return copy;
}

// The arrays of a plan in guarded memory. Used by one thread, for one call.
class GuardedPlan {
 public:
  GuardedPlan(const mortise_schedule_plan& plan, std::int32_t num_seqs)
      : host_(plan),
        seqs_(size(num_seqs)),
        new_tokens_(size(num_seqs)),
        preempted_(size(num_seqs)),
        pins_(size(num_seqs)),
        pin_tokens_(size(num_seqs)),
        max_drafts_(std::span<const std::int32_t>(plan.max_drafts, size(num_seqs))) {
    given_ = plan;
    given_.seqs = seqs_.data();
    given_.num_new_tokens = new_tokens_.data();
    given_.preempted = preempted_.data();
    given_.pins = pins_.data();
    given_.pin_tokens = pin_tokens_.data();
    given_.max_drafts = max_drafts_.data();
    written_ = given_;
  }

  mortise_schedule_plan* abi() { return &written_; }

  // Copies what the scheduler wrote into the host's plan.
  void take_back(mortise_schedule_plan& plan) const {
    expect(written_.struct_size == given_.struct_size && written_.flags == given_.flags,
           "plan changes struct_size or flags of the plan");
    expect(written_.seqs == given_.seqs && written_.num_new_tokens == given_.num_new_tokens &&
               written_.preempted == given_.preempted && written_.pins == given_.pins &&
               written_.pin_tokens == given_.pin_tokens && written_.max_drafts == given_.max_drafts,
           "plan changes a pointer of the plan; the arrays are the host's");
    plan.num_scheduled = written_.num_scheduled;
    plan.num_preempted = written_.num_preempted;
    plan.num_pins = written_.num_pins;
    copy(seqs_, host_.seqs);
    copy(new_tokens_, host_.num_new_tokens);
    copy(preempted_, host_.preempted);
    copy(pins_, host_.pins);
    copy(pin_tokens_, host_.pin_tokens);
    copy(max_drafts_, host_.max_drafts);
  }

 private:
  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  static void copy(const GuardedArray<std::int32_t>& from, std::int32_t* to) {
    if (from.size() > 0) std::memcpy(to, from.data(), from.span().size_bytes());
  }

  const mortise_schedule_plan host_;
  GuardedArray<std::int32_t> seqs_, new_tokens_, preempted_, pins_, pin_tokens_, max_drafts_;
  mortise_schedule_plan given_{}, written_{};
};

std::string text_of(const mortise_schedule_plan& plan, std::int32_t num_seqs) {
  const auto list = [&](const std::int32_t* values, std::int32_t count) {
    return fmt::format("{}", fmt::join(values, values + std::clamp(count, 0, num_seqs), ","));
  };
  return fmt::format("run {} for {}, preempt {}, pin {} for {}, drafts {}\n", list(plan.seqs, plan.num_scheduled),
                     list(plan.num_new_tokens, plan.num_scheduled), list(plan.preempted, plan.num_preempted),
                     list(plan.pins, plan.num_pins), list(plan.pin_tokens, plan.num_pins),
                     list(plan.max_drafts, num_seqs));
}

void pass_events(Part& part, const mortise_schedule_events& events) {
  ReadOnlyCopies copies;
  const std::int32_t n = events.num_events;
  mortise_schedule_events copy = events;
  std::vector<const std::int32_t*> tokens;
  for (std::int32_t i = 0; i < n; ++i) tokens.push_back(copies.copy(events.tokens[i], events.num_tokens[i]));
  copy.kinds = copies.copy(events.kinds, n);
  copy.seq_ids = copies.copy(events.seq_ids, n);
  copy.num_tokens = copies.copy(events.num_tokens, n);
  copy.tokens = copies.copy(tokens.data(), n);
  copy.max_new_tokens = copies.copy(events.max_new_tokens, n);
  copy.priorities = copies.copy(events.priorities, n);
  copy.groups = copies.copy(events.groups, n);
  part.perform("events", [&](mortise_error* error) {
    return part.table<mortise_scheduler_table>().events(part.handle<mortise_scheduler>(), &copy, error);
  });
}

}  // namespace

SchedulerCalls guarded_calls(Part& part, std::string* journal) {
  return {[&part](const mortise_schedule_events& events) { pass_events(part, events); },
          [&part, journal](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
            ReadOnlyCopies copies;
            const mortise_schedule_view copy = copy_view(view, copies);
            GuardedPlan guarded(plan, view.num_seqs);
            part.perform("plan", [&](mortise_error* error) {
              return part.table<mortise_scheduler_table>().plan(part.handle<mortise_scheduler>(), &copy, guarded.abi(),
                                                                error);
            });
            guarded.take_back(plan);
            if (journal != nullptr) *journal += text_of(plan, view.num_seqs);
          }};
}

}  // namespace mortise::conformance
