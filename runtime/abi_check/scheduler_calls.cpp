// runtime/abi_check/scheduler_calls.cpp: the checks of mortise/scheduler.h. The bounds of plans are not here: the
// engine checks every plan (engine/planner).
#include <algorithm>
#include <array>
#include <unordered_set>
#include <vector>

#include "abi_check/kinds.hpp"
#include "abi_check/memory.hpp"
#include "mortise/struct_sizes.h"

namespace mortise::abi_check {
namespace {

constexpr const char* kHeader = "mortise/scheduler.h";
constexpr Function kEvents = {"events", Tag::kStep, State::kActive};
constexpr Function kPlan = {"plan", Tag::kStep, State::kActive};

struct Scheduler : Instance {
  using Instance::Instance;

  std::unordered_set<std::uint64_t> live;  // added and not ended
};

void check_events(const Call& call, Scheduler& self, const mortise_schedule_events& args) {
  call.caller_must(args.num_events > 0, kHeader, "Not called when nothing happened", "{} events", args.num_events);
  call.check_array(args.kinds, args.num_events, kHeader, "kinds");
  call.check_array(args.seq_ids, args.num_events, kHeader, "seq_ids");
  call.check_array(args.num_tokens, args.num_events, kHeader, "num_tokens");
  for (std::int32_t i = 0; i < args.num_events; ++i) {
    const std::uint64_t id = args.seq_ids[i];
    switch (args.kinds[i]) {
      case MORTISE_EVENT_ADDED:
        call.caller_must(self.live.insert(id).second, kHeader, "ADDED comes before the first plan",
                         "sequence {} is added twice", id);
        call.caller_must(args.num_tokens[i] > 0 && args.tokens != nullptr && args.tokens[i] != nullptr, kHeader,
                         "ADDED: tokens of the sequence", "sequence {} is added with {} tokens", id,
                         args.num_tokens[i]);
        break;
      case MORTISE_EVENT_ENDED:
        call.caller_must(self.live.erase(id) == 1, kHeader, "and before its ENDED", "sequence {} ends, and is not live",
                         id);
        break;
      default:
        call.caller_must(
            args.kinds[i] == MORTISE_EVENT_PREFIX_RESIDENT || args.kinds[i] == MORTISE_EVENT_PREFIX_EVICTED, kHeader,
            "MORTISE_EVENT_*", "kinds[{}] is {}", i, args.kinds[i]);
    }
  }
}

mortise_status events(mortise_scheduler* handle, const mortise_schedule_events* args, mortise_error* error) {
  return checked<Scheduler>(handle, kEvents, error, [&](Call& call, Scheduler& self) {
    call.check_struct(args, MORTISE_SIZE_0_5(mortise_schedule_events), "events");
    check_events(call, self, *args);
    Inputs inputs;
    inputs.add("events", args, 1);
    inputs.add("kinds", args->kinds, args->num_events);
    inputs.add("seq_ids", args->seq_ids, args->num_events);
    inputs.add("num_tokens", args->num_tokens, args->num_events);
    inputs.add("max_new_tokens", args->max_new_tokens, args->num_events);
    inputs.add("priorities", args->priorities, args->num_events);
    inputs.add("groups", args->groups, args->num_events);
    for (std::int32_t i = 0; i < args->num_events; ++i) {
      if (args->kinds[i] == MORTISE_EVENT_ADDED) inputs.add("tokens", args->tokens[i], args->num_tokens[i]);
    }
    const mortise_status status = call.make(
        error, [&](mortise_error* own) { return self.table<mortise_scheduler_table>().events(handle, args, own); });
    inputs.check(call);
    if (status == MORTISE_OK && self.live.empty()) call.check_no_sequences(handle);
    return status;
  });
}

void check_sequence(const Call& call, const mortise_schedule_view& view, std::int32_t i) {
  const bool runs = view.states[i] == MORTISE_SEQ_RUNNING;
  call.caller_must(runs || view.states[i] == MORTISE_SEQ_WAITING, kHeader, "MORTISE_SEQ_*", "states[{}] is {}", i,
                   view.states[i]);
  const std::int32_t start = runs ? view.num_computed[i] : view.num_cached[i];
  call.caller_must((runs ? view.num_cached[i] : view.num_computed[i]) == 0, kHeader, "0 for a waiting sequence",
                   "sequence {} is {} with num_computed {} and num_cached {}", i, runs ? "running" : "waiting",
                   view.num_computed[i], view.num_cached[i]);
  call.caller_must(start >= 0 && start < view.num_tokens[i], kHeader, "num_tokens - max(num_computed, num_cached)",
                   "sequence {} has {} tokens, {} of them computed or cached", i, view.num_tokens[i], start);
  call.caller_must(runs || view.blocks_held[i] == 0, kHeader, "holds no blocks: it is new or was preempted",
                   "the waiting sequence {} holds {} blocks", i, view.blocks_held[i]);
  call.caller_must(view.blocks_freed_if_preempted[i] >= 0 && view.blocks_freed_if_preempted[i] <= view.blocks_held[i],
                   kHeader, "Blocks that this sequence alone holds", "{} of the {} blocks of sequence {}",
                   view.blocks_freed_if_preempted[i], view.blocks_held[i], i);
  call.caller_must(view.lookahead[i] >= 0 && view.lookahead[i] < view.token_budget, kHeader,
                   "The most draft tokens this step may verify", "lookahead[{}] is {}", i, view.lookahead[i]);
  call.caller_must(i == 0 || view.arrivals[i] >= view.arrivals[i - 1], kHeader, "The live sequences, oldest first",
                   "arrivals[{}] is {} after {}", i, view.arrivals[i], i == 0 ? 0 : view.arrivals[i - 1]);
}

void check_view(const Call& call, const Scheduler& self, const mortise_schedule_view& view) {
  call.caller_must(view.num_seqs > 0, kHeader, "All arrays have length [num_seqs]", "num_seqs is {}", view.num_seqs);
  call.caller_must((view.flags & ~static_cast<std::uint32_t>(MORTISE_VIEW_WHOLE_DRAFTS)) == 0, kHeader,
                   "MORTISE_VIEW_*", "flags are {}", view.flags);
  call.caller_must(view.token_budget == self.sizes.max_batched_tokens && view.seq_budget == self.sizes.max_num_seqs &&
                       view.num_blocks == self.sizes.num_blocks && view.block_size == self.sizes.block_size,
                   kHeader, "they become the view's budgets and the sizes of activate",
                   "the view has {}, {}, {} and {}; activate had {}, {}, {} and {}", view.token_budget, view.seq_budget,
                   view.num_blocks, view.block_size, self.sizes.max_batched_tokens, self.sizes.max_num_seqs,
                   self.sizes.num_blocks, self.sizes.block_size);
  call.caller_must(view.num_free_blocks >= 0 && view.num_free_blocks <= view.num_blocks, kHeader,
                   "available without preempting", "{} of {} blocks", view.num_free_blocks, view.num_blocks);
  const std::pair<const void*, const char*> arrays[] = {
      {view.seq_ids, "seq_ids"},         {view.states, "states"},
      {view.num_tokens, "num_tokens"},   {view.num_computed, "num_computed"},
      {view.num_cached, "num_cached"},   {view.num_cached_free_blocks, "num_cached_free_blocks"},
      {view.blocks_held, "blocks_held"}, {view.blocks_freed_if_preempted, "blocks_freed_if_preempted"},
      {view.lookahead, "lookahead"},     {view.priorities, "priorities"},
      {view.arrivals, "arrivals"},       {view.groups, "groups"},
  };
  for (const auto& [array, name] : arrays) call.check_array(array, view.num_seqs, kHeader, name);
  std::unordered_set<std::uint64_t> seen;
  for (std::int32_t i = 0; i < view.num_seqs; ++i) {
    call.caller_must(seen.insert(view.seq_ids[i]).second && self.live.contains(view.seq_ids[i]), kHeader,
                     "ADDED comes before the first plan whose view may contain the sequence",
                     "the view has sequence {} twice, or it is not live", view.seq_ids[i]);
    check_sequence(call, view, i);
  }
}

// Answers a scheduler's calls of blocks_freed during plan, and notes the first invalid call.
struct Questions {
  const mortise_schedule_view& view;
  std::string wrong;

  static std::int32_t answer(const void* data, const std::int32_t* seqs, std::int32_t num_seqs) {
    auto& self = *static_cast<Questions*>(const_cast<void*>(data));
    const mortise_schedule_view& view = self.view;
    std::unordered_set<std::int32_t> seen;
    for (std::int32_t k = 0; k < num_seqs; ++k) {
      const std::int32_t i = seqs[k];
      const bool is_right =
          i >= 0 && i < view.num_seqs && view.states[i] == MORTISE_SEQ_RUNNING && seen.insert(i).second;
      if (!is_right && self.wrong.empty()) self.wrong = fmt::format("blocks_freed is asked about sequence {}", i);
    }
    return self.wrong.empty() ? view.blocks_freed(view.host_data, seqs, num_seqs) : 0;
  }
};

// What a scheduler writes: the counts, and arrays between guards.
struct Plan {
  Plan(const mortise_schedule_plan& host, std::int32_t n)
      : given(host),
        seqs("seqs", host.seqs, n),
        num_new_tokens("num_new_tokens", host.num_new_tokens, n),
        preempted("preempted", host.preempted, n),
        pins("pins", host.pins, n),
        pin_tokens("pin_tokens", host.pin_tokens, n),
        max_drafts("max_drafts", host.max_drafts, n) {
    given.seqs = seqs.data();
    given.num_new_tokens = num_new_tokens.data();
    given.preempted = preempted.data();
    given.pins = pins.data();
    given.pin_tokens = pin_tokens.data();
    given.max_drafts = max_drafts.data();
    written = given;
  }
  void take(const Call& call) {
    const auto pointers = [](const mortise_schedule_plan& p) {
      return std::array<const void*, 6>{p.seqs, p.num_new_tokens, p.preempted, p.pins, p.pin_tokens, p.max_drafts};
    };
    call.part_must(pointers(written) == pointers(given) && written.struct_size == given.struct_size &&
                       written.flags == given.flags,
                   kHeader, "The host allocates the arrays", "plan changes a pointer or the size of the plan");
    for (auto* array : {&seqs, &num_new_tokens, &preempted, &pins, &pin_tokens, &max_drafts}) array->take(call);
  }

  mortise_schedule_plan given, written;
  Output<std::int32_t> seqs, num_new_tokens, preempted, pins, pin_tokens, max_drafts;
};

// Returns the plan as a list of numbers. Counts out of range, which the engine refuses, are left as they are.
std::vector<std::int32_t> numbers_of(const mortise_schedule_plan& plan, std::int32_t n) {
  std::vector<std::int32_t> numbers = {plan.num_scheduled, plan.num_preempted, plan.num_pins};
  const auto add = [&](const std::int32_t* values, std::int32_t count) {
    numbers.insert(numbers.end(), values, values + std::clamp(count, 0, n));
  };
  add(plan.seqs, plan.num_scheduled);
  add(plan.num_new_tokens, plan.num_scheduled);
  add(plan.preempted, plan.num_preempted);
  add(plan.pins, plan.num_pins);
  add(plan.pin_tokens, plan.num_pins);
  add(plan.max_drafts, n);
  return numbers;
}

Inputs inputs_of(const mortise_schedule_view& view) {
  const std::int64_t n = view.num_seqs;
  Inputs inputs;
  inputs.add("seq_ids", view.seq_ids, n);
  inputs.add("states", view.states, n);
  inputs.add("num_tokens", view.num_tokens, n);
  inputs.add("num_computed", view.num_computed, n);
  inputs.add("num_cached", view.num_cached, n);
  inputs.add("num_cached_free_blocks", view.num_cached_free_blocks, n);
  inputs.add("blocks_held", view.blocks_held, n);
  inputs.add("blocks_freed_if_preempted", view.blocks_freed_if_preempted, n);
  inputs.add("lookahead", view.lookahead, n);
  inputs.add("priorities", view.priorities, n);
  inputs.add("arrivals", view.arrivals, n);
  inputs.add("groups", view.groups, n);
  inputs.add("cached_free_with", view.cached_free_with, n);
  inputs.add("cached_free_shared", view.cached_free_shared, n);
  return inputs;
}

mortise_status plan(mortise_scheduler* handle, const mortise_schedule_view* view, mortise_schedule_plan* plan,
                    mortise_error* error) {
  return checked<Scheduler>(handle, kPlan, error, [&](Call& call, Scheduler& self) {
    call.check_struct(view, MORTISE_SIZE_0_5(mortise_schedule_view), "view");
    call.check_struct(plan, MORTISE_SIZE_0_5(mortise_schedule_plan), "plan");
    check_view(call, self, *view);
    Questions questions{*view, ""};
    mortise_schedule_view shown = *view;
    if (view->blocks_freed != nullptr) {
      shown.blocks_freed = Questions::answer;
      shown.host_data = &questions;
    }
    Inputs inputs = inputs_of(shown);
    inputs.add("view", &shown, 1);
    const auto ask = [&](mortise_schedule_plan& host, mortise_error* to) {
      Plan mine(host, view->num_seqs);
      const mortise_status status = call.make(to, [&](mortise_error* own) {
        return self.table<mortise_scheduler_table>().plan(handle, &shown, &mine.written, own);
      });
      inputs.check(call);
      call.part_must(questions.wrong.empty(), kHeader, "the running sequences seqs[0 .. num_seqs - 1]", "{}",
                     questions.wrong);
      mine.take(call);
      host.num_scheduled = mine.written.num_scheduled;
      host.num_preempted = mine.written.num_preempted;
      host.num_pins = mine.written.num_pins;
      return status;
    };
    std::vector<std::int32_t> drafts(plan->max_drafts, plan->max_drafts + view->num_seqs);
    const mortise_status status = ask(*plan, error);
    if (status != MORTISE_OK) return status;
    const std::vector<std::int32_t> first = numbers_of(*plan, view->num_seqs);
    std::copy(drafts.begin(), drafts.end(), plan->max_drafts);
    call.part_must(ask(*plan, error) == MORTISE_OK && numbers_of(*plan, view->num_seqs) == first, kHeader,
                   "called twice with the same view, it gives the same plan",
                   "the second plan of step {} is another one", view->step_id);
    return status;
  });
}

}  // namespace

std::shared_ptr<Instance> make_scheduler(const Component& real) {
  return std::make_shared<Scheduler>(real);
}

void check_table(mortise_scheduler_table& table) {
  replace(table.events, &events);
  replace(table.plan, &plan);
}

}  // namespace mortise::abi_check
