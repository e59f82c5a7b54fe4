#include "engine/planner.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "mortise/plan_blocks.hpp"

namespace mortise {

// The arrays that a mortise_schedule_view points to, and further arrays for the checks.
struct Planner::View {
  const std::vector<Sequence*>& live;
  const EngineLimits& limits;
  const CachedFreePrefixes& cached_free;
  const KvCache& cache;
  std::size_t num_free;
  std::vector<std::uint64_t> ids, arrivals, groups;
  std::vector<std::int32_t> states, num_tokens, num_computed, num_cached, held, freed, lookahead, priorities;

  View(const std::vector<Sequence*>& live, const EngineLimits& limits, const std::vector<std::int32_t>& lookahead,
       const CachedFreePrefixes& cached_free, const KvCache& cache)
      : live(live),
        limits(limits),
        cached_free(cached_free),
        cache(cache),
        num_free(cache.num_available()),
        lookahead(lookahead) {
    for (auto* array : {&ids, &arrivals, &groups}) array->resize(live.size());
    for (auto* array : {&states, &num_tokens, &num_computed, &num_cached, &held, &freed, &priorities}) {
      array->resize(live.size());
    }
    for (std::size_t i = 0; i < live.size(); ++i) {  // thousands may wait
      const Sequence& sequence = *live[i];
      ids[i] = sequence.id;
      arrivals[i] = sequence.arrival;
      groups[i] = sequence.group;
      states[i] = sequence.running() ? MORTISE_SEQ_RUNNING : MORTISE_SEQ_WAITING;
      num_tokens[i] = sequence.num_to_run();
      num_computed[i] = sequence.num_computed;
      num_cached[i] = sequence.running() ? 0 : sequence.num_cached;
      held[i] = static_cast<std::int32_t>(sequence.blocks.size());
      freed[i] = sequence.holder.num_sole;
      priorities[i] = sequence.priority;
    }
  }

  mortise_schedule_view abi(std::uint64_t step_id) const {
    mortise_schedule_view view{};
    view.struct_size = sizeof view;
    view.flags = limits.rejection ? MORTISE_VIEW_WHOLE_DRAFTS : 0;
    view.step_id = step_id;
    view.num_seqs = static_cast<std::int32_t>(live.size());
    view.block_size = limits.block_size;
    view.token_budget = limits.max_batched_tokens;
    view.seq_budget = limits.max_num_seqs;
    view.num_free_blocks = static_cast<std::int32_t>(num_free);
    view.num_blocks = limits.num_blocks;
    view.seq_ids = ids.data();
    view.states = states.data();
    view.num_tokens = num_tokens.data();
    view.num_computed = num_computed.data();
    view.num_cached = num_cached.data();
    view.num_cached_free_blocks = cached_free.num_cached_free().data();
    view.blocks_held = held.data();
    view.blocks_freed_if_preempted = freed.data();
    view.lookahead = lookahead.data();
    view.priorities = priorities.data();
    view.arrivals = arrivals.data();
    view.groups = groups.data();
    view.cached_free_with = cached_free.with().data();
    view.cached_free_shared = cached_free.num_shared().data();
    view.blocks_freed = blocks_freed;
    view.host_data = this;
    return view;
  }

  // Implements mortise_schedule_view.blocks_freed. An index that is no running sequence frees nothing.
  static std::int32_t blocks_freed(const void* host_data, const std::int32_t* seqs, std::int32_t num_seqs) {
    const View& view = *static_cast<const View*>(host_data);
    std::int32_t num_freed = 0;
    std::unordered_map<BlockId, std::uint32_t> num_releases;  // of blocks with several holders
    for (std::int32_t k = 0; k < num_seqs; ++k) {
      if (seqs[k] < 0 || static_cast<std::size_t>(seqs[k]) >= view.live.size()) continue;
      const Sequence& sequence = *view.live[static_cast<std::size_t>(seqs[k])];
      num_freed += sequence.holder.num_sole;
      if (num_seqs == 1) continue;
      for (const BlockId block : sequence.blocks) {
        const std::uint32_t num_holders = view.cache.num_holders(block);
        if (num_holders > 1 && ++num_releases[block] == num_holders) ++num_freed;
      }
    }
    return num_freed;
  }

  std::int32_t run_begin(std::size_t i) const { return running(i) ? num_computed[i] : num_cached[i]; }
  std::int32_t remaining(std::size_t i) const { return num_tokens[i] - run_begin(i); }
  // Returns how many of `drafts` a run of `n` new tokens verifies: all if it ends with the last known token, otherwise
  // none.
  std::int32_t drafts(std::size_t i, std::int32_t n, std::int32_t drafts) const {
    return n == remaining(i) ? drafts : 0;
  }
  // Returns the number of drafts that a run to the end of the known tokens must keep. Further drafts may be cut.
  std::int32_t least_drafts(std::size_t i) const { return limits.rejection ? lookahead[i] : 0; }
  std::int64_t blocks_for(std::size_t i, std::int32_t rows) const {
    return (end(i, rows) + limits.block_size - 1) / limits.block_size;
  }
  // Returns the number of tokens with KV after sequence `i` has run `rows` rows.
  std::int64_t end(std::size_t i, std::int32_t rows) const { return std::int64_t{run_begin(i)} + rows; }
  bool running(std::size_t i) const { return states[i] == MORTISE_SEQ_RUNNING; }
};

namespace {

struct PlanArrays {
  explicit PlanArrays(const std::vector<std::int32_t>& lookahead)
      : seqs(lookahead.size()),
        new_tokens(lookahead.size()),
        preempted(lookahead.size()),
        pins(lookahead.size()),
        pin_tokens(lookahead.size()),
        drafts(lookahead) {}
  mortise_schedule_plan abi() {
    mortise_schedule_plan plan{};
    plan.struct_size = sizeof plan;
    plan.seqs = seqs.data();
    plan.num_new_tokens = new_tokens.data();
    plan.preempted = preempted.data();
    plan.pins = pins.data();
    plan.pin_tokens = pin_tokens.data();
    plan.max_drafts = drafts.data();
    return plan;
  }
  std::vector<std::int32_t> seqs, new_tokens, preempted, pins, pin_tokens, drafts;
};

// The arrays that a mortise_schedule_events points to. `Event` is Planner::Event.
struct EventArrays {
  template <typename Event>
  explicit EventArrays(const std::vector<Event>& events) {
    for (const Event& event : events) {
      const Sequence* added = event.added.get();
      kinds.push_back(event.kind);
      ids.push_back(event.seq_id);
      num_tokens.push_back(event.num_tokens);
      tokens.push_back(added == nullptr ? nullptr : added->tokens.data());
      max_new_tokens.push_back(added == nullptr ? 0 : added->max_tokens - added->num_generated());
      priorities.push_back(added == nullptr ? 0 : added->priority);
      groups.push_back(added == nullptr ? 0 : added->request().group);
    }
  }
  mortise_schedule_events abi() const {
    mortise_schedule_events events{};
    events.struct_size = sizeof events;
    events.num_events = static_cast<std::int32_t>(kinds.size());
    events.kinds = kinds.data();
    events.seq_ids = ids.data();
    events.num_tokens = num_tokens.data();
    events.tokens = tokens.data();
    events.max_new_tokens = max_new_tokens.data();
    events.priorities = priorities.data();
    events.groups = groups.data();
    return events;
  }
  std::vector<std::int32_t> kinds, num_tokens, max_new_tokens, priorities;
  std::vector<std::uint64_t> ids, groups;
  std::vector<const std::int32_t*> tokens;
};

// Returns what is wrong with a plan, or nullopt. `View` is Planner::View, `abi_view` what the scheduler saw of it.
template <typename View>
std::optional<Planner::Breach> find_breach(const View& view, const mortise_schedule_view& abi_view,
                                           const mortise_schedule_plan& plan) {
  using Breach = Planner::Breach;
  const auto size = static_cast<std::int32_t>(view.live.size());
  const auto id_of = [&](std::int32_t index) { return view.ids[static_cast<std::size_t>(index)]; };
  if (plan.num_scheduled < 0 || plan.num_scheduled > size || plan.num_preempted < 0 || plan.num_preempted > size) {
    return Breach{
        fmt::format("{} scheduled and {} preempted of {} sequences", plan.num_scheduled, plan.num_preempted, size), {}};
  }
  if (plan.num_pins < 0 || plan.num_pins > size) {
    return Breach{fmt::format("{} pins of {} sequences", plan.num_pins, size), {}};
  }
  if (plan.num_scheduled == 0) return Breach{"nothing is scheduled although sequences wait", {}};
  std::vector<char> seen(view.live.size(), 0);
  PlanBlocks blocks(abi_view);
  std::int64_t rows = 0;
  std::int64_t num_running = std::count(view.states.begin(), view.states.end(), MORTISE_SEQ_RUNNING);
  const auto take = [&](std::int32_t index) { return index >= 0 && index < size && !std::exchange(seen[index], 1); };
  for (std::int32_t i = 0; i < plan.num_preempted; ++i) {
    const std::int32_t index = plan.preempted[i];
    if (!take(index)) return Breach{fmt::format("preempted[{}] = {} is out of range or given twice", i, index), {}};
    if (!view.running(index)) return Breach{fmt::format("preempted[{}] = {} does not run", i, index), id_of(index)};
    blocks.preempt(index);
    --num_running;
  }
  for (std::int32_t i = 0; i < plan.num_scheduled; ++i) {
    const std::int32_t index = plan.seqs[i];
    const std::int32_t n = plan.num_new_tokens[i];
    if (!take(index)) return Breach{fmt::format("seqs[{}] = {} is out of range or given twice", i, index), {}};
    if (n < 1 || n > view.remaining(index)) {
      return Breach{fmt::format("num_new_tokens[{}] = {}, but {} tokens need to run", i, n, view.remaining(index)),
                    id_of(index)};
    }
    const std::int32_t granted = plan.max_drafts[index], lookahead = view.lookahead[index];
    const std::int32_t least = view.drafts(index, n, view.least_drafts(index));
    if (granted < least || granted > lookahead) {
      return Breach{
          fmt::format("max_drafts[{}] = {}, but the sequence may have {} to {}", index, granted, least, lookahead),
          id_of(index)};
    }
    const std::int32_t num_rows = n + view.drafts(index, n, granted);
    rows += num_rows;
    blocks.run(index, view.end(index, num_rows));
    num_running += view.running(index) ? 0 : 1;
  }
  for (std::int32_t i = 0; i < plan.num_pins; ++i) {
    const std::int32_t index = plan.pins[i];
    if (index < 0 || index >= size) return Breach{fmt::format("pins[{}] = {} is out of range", i, index), {}};
    if (plan.pin_tokens[i] < 0 || plan.pin_tokens[i] > view.num_tokens[index]) {
      return Breach{fmt::format("pin_tokens[{}] = {}, but the sequence has {} tokens", i, plan.pin_tokens[i],
                                view.num_tokens[index]),
                    id_of(index)};
    }
  }
  if (rows > view.limits.max_batched_tokens) {
    return Breach{fmt::format("{} rows, but max_batched_tokens is {}", rows, view.limits.max_batched_tokens), {}};
  }
  if (num_running > view.limits.max_num_seqs) {
    return Breach{fmt::format("{} sequences would run, but max_num_seqs is {}", num_running, view.limits.max_num_seqs),
                  {}};
  }
  if (blocks.num_free() < 0) return Breach{fmt::format("{} blocks more than are free", -blocks.num_free()), {}};
  return std::nullopt;
}

// Returns the last block of the cached path that a waiting sequence would begin with.
BlockId last_cached(const Sequence& sequence, std::int32_t block_size, const PrefixTree& tree) {
  const std::int32_t num_blocks = sequence.running() ? 0 : sequence.num_cached / block_size;
  if (num_blocks == 0) return kPrefixRoot;
  BlockId last = sequence.prefix.last;
  for (std::int32_t i = sequence.prefix.num_blocks; i > num_blocks; --i) last = tree.parent(last);
  return last;
}

}  // namespace

Planner::Planner(ActiveScheduler scheduler, const EngineLimits& limits, RepeatedMessages& messages)
    : scheduler_(std::move(scheduler)),
      limits_(limits),
      messages_(messages),
      starvation_({MORTISE_MAX_IDLE_PLANS, std::int64_t{MORTISE_MAX_PASSED_STEPS} * limits.max_batched_tokens}),
      cached_free_(static_cast<std::size_t>(limits.num_blocks)) {}

void Planner::added(const std::shared_ptr<const Sequence>& sequence) {
  events_.push_back({MORTISE_EVENT_ADDED, sequence->id, sequence->num_tokens(), sequence});
}

void Planner::ended(std::uint64_t seq_id) {
  events_.push_back({MORTISE_EVENT_ENDED, seq_id, 0, nullptr});
  starvation_.ended(seq_id);
  rehearsed_admissions_.erase(seq_id);
  if (starved_ == seq_id) starved_.reset();
}

void Planner::prefix_resident(std::uint64_t seq_id, std::int32_t num_tokens) {
  events_.push_back({MORTISE_EVENT_PREFIX_RESIDENT, seq_id, num_tokens, nullptr});
}

void Planner::prefix_evicted(std::uint64_t seq_id) {
  events_.push_back({MORTISE_EVENT_PREFIX_EVICTED, seq_id, 0, nullptr});
}

namespace {

constexpr const char* kPlanReplaced = "the step runs first come, first served";
constexpr const char* kSchedulerEnded = "it will not be called again; all steps run first come, first served";

}  // namespace

CallResult Planner::send_events() {
  if (events_.empty() || scheduler_.health->failed()) return {};
  const EventArrays arrays(events_);  // borrows the tokens of the sequences that the events keep
  const mortise_schedule_events events = arrays.abi();
  const CallResult result = scheduler_.try_call<&mortise_scheduler_table::events>("events", &events);
  if (result.ok()) return result;
  remember_breach(result.error.message);
  messages_.warn(
      scheduler_.name, "events", result,
      scheduler_.health->failed() ? kSchedulerEnded : "it will not be told of these sequences or ends again");
  return result;
}

// Passes the queued events to the scheduler, and calls `work` with the view of the step and the result of that call.
template <typename Work>
auto Planner::with_view(std::uint64_t step_id, const std::vector<Sequence*>& runnable,
                        const std::vector<std::int32_t>& lookahead, const KvCache& cache, const Work& work) {
  const CallResult sent = send_events();
  events_.clear();  // also if the scheduler has failed and did not receive them
  std::vector<BlockId> paths;
  paths.reserve(runnable.size());
  for (const Sequence* sequence : runnable) paths.push_back(last_cached(*sequence, limits_.block_size, cache.tree()));
  cached_free_.find(paths, cache);
  const View view(runnable, limits_, lookahead, cached_free_, cache);
  return work(view, view.abi(step_id), sent);
}

StepPlan Planner::plan(std::uint64_t step_id, const std::vector<Sequence*>& runnable,
                       const std::vector<std::int32_t>& lookahead, const KvCache& cache) {
  const auto choose = [&](const View& view, const mortise_schedule_view& abi_view, const CallResult&) -> StepPlan {
    if (starved_) {
      // If the starved sequence is held back, it is not in the view. Then the view's oldest sequence runs first.
      const auto at = std::ranges::find(view.ids, *starved_);
      return first_come_first_served(view, abi_view, at == view.ids.end() ? 0 : at - view.ids.begin());
    }
    if (scheduler_.health->failed()) return first_come_first_served(view, abi_view);
    std::optional<StepPlan> plan = usable_plan(ask_scheduler(view, abi_view));
    if (!plan) return first_come_first_served(view, abi_view);
    if (const auto starved = find_starved(view, abi_view, *plan, /*is_carried_out=*/true)) {
      ++num_starved_;
      remember_breach(starved->why);
      messages_.warn(scheduler_.name, "plan", MORTISE_OK, starved->why,
                     "until it has ended, all steps run this sequence first, then first come, first served");
      starved_ = view.ids[starved->index];
      return first_come_first_served(view, abi_view, starved->index);
    }
    return std::move(*plan);
  };
  return with_view(step_id, runnable, lookahead, cache, choose);
}

std::optional<Planner::Breach> Planner::rehearse(std::uint64_t step_id, const std::vector<Sequence*>& runnable,
                                                 const std::vector<std::int32_t>& lookahead, const KvCache& cache) {
  const auto failure = [](const char* function, const CallResult& result) {
    return Breach{fmt::format("{} failed: {} ({})", function, result.error.message, status_name(result.status)), {}};
  };
  const auto judge = [&](const View& view, const mortise_schedule_view& abi_view,
                         const CallResult& sent) -> std::optional<Breach> {
    if (!sent.ok()) return failure("events", sent);
    Answer answer = ask_scheduler(view, abi_view);
    if (!answer.result.ok()) return failure("plan", answer.result);
    if (!answer.plan) return answer.breach;
    const auto starved = find_starved(view, abi_view, *answer.plan, /*is_carried_out=*/false);
    if (!starved) return std::nullopt;
    return Breach{starved->why, view.ids[starved->index]};
  };
  return with_view(step_id, runnable, lookahead, cache, judge);
}

// Asks the scheduler for a plan and checks it.
Planner::Answer Planner::ask_scheduler(const View& view, const mortise_schedule_view& abi_view) {
  PlanArrays arrays(view.lookahead);
  const mortise_schedule_view shown = abi_view;  // a copy: the scheduler cannot change what the host reads
  mortise_schedule_plan given = arrays.abi();
  Answer answer;
  answer.result = scheduler_.try_call<&mortise_scheduler_table::plan>("plan", &shown, &given);
  if (!answer.result.ok()) return answer;
  // The scheduler may set only the counts, but it may have overwritten the pointers, too.
  mortise_schedule_plan plan = arrays.abi();
  plan.num_scheduled = given.num_scheduled;
  plan.num_preempted = given.num_preempted;
  plan.num_pins = given.num_pins;
  if (std::optional<Breach> breach = find_breach(view, abi_view, plan)) {
    // An empty plan is no breach if only pins leave no room.
    const bool is_empty = plan.num_scheduled == 0 && plan.num_preempted == 0;
    if (!is_empty || !first_come_first_served(view, abi_view).drop_pins) answer.breach = std::move(breach);
    return answer;
  }
  const std::vector<Sequence*>& runnable = view.live;
  StepPlan& checked = answer.plan.emplace();
  for (std::int32_t i = 0; i < plan.num_preempted; ++i) checked.preempted.push_back(runnable[arrays.preempted[i]]);
  for (std::int32_t i = 0; i < plan.num_scheduled; ++i) {
    const std::int32_t index = arrays.seqs[i], n = arrays.new_tokens[i];
    checked.scheduled.push_back({runnable[index], n, view.drafts(index, n, arrays.drafts[index])});
  }
  for (std::int32_t i = 0; i < plan.num_pins; ++i) {
    checked.pins.push_back({runnable[arrays.pins[i]], arrays.pin_tokens[i]});
  }
  return answer;
}

// Counts and logs a plan that cannot be used.
std::optional<StepPlan> Planner::usable_plan(Answer answer) {
  if (!answer.result.ok()) {
    ++num_rejected_;
    remember_breach(answer.result.error.message);
    messages_.warn(scheduler_.name, "plan", answer.result,
                   scheduler_.health->failed() ? kSchedulerEnded : kPlanReplaced);
  } else if (answer.breach) {
    ++num_rejected_;
    remember_breach("bad plan: " + answer.breach->why);
    messages_.warn(scheduler_.name, "plan", MORTISE_OK, "bad plan: " + answer.breach->why, kPlanReplaced);
  }
  return std::move(answer.plan);
}

void Planner::remember_breach(const std::string& what) {
  last_breach_ = fmt::format("{}: {}", scheduler_.name, what);
}

std::optional<std::string> Planner::why_replace() const {
  if (scheduler_.health->failed()) return scheduler_.health->reason();
  if (num_starved_ > 0) return last_breach_;
  if (num_rejected_ < kMaxBreaches) return std::nullopt;
  return fmt::format("{} plans could not be used, the last one because of: {}", num_rejected_, last_breach_);
}

// Returns a sequence that the scheduler starves, if there is one.
std::optional<StarvationWatch::Starved> Planner::find_starved(const View& view, const mortise_schedule_view& abi_view,
                                                              const StepPlan& plan, bool is_carried_out) {
  std::vector<char> scheduled(view.live.size(), 0), admits(is_carried_out ? 0 : view.live.size(), 0);
  WatchedPlan watched{view.ids, view.priorities, view.states, scheduled};
  watched.admits = admits;
  watched.rows = limits_.max_batched_tokens;
  watched.num_seqs_left = limits_.max_num_seqs;
  PlanBlocks blocks(abi_view);  // without preemptions; plans that preempt are handled below
  std::size_t next = 0;         // most plans are in the order of the view
  for (const PlannedSequence& planned : plan.scheduled) {
    const std::uint64_t id = planned.sequence->id;
    if (next >= view.ids.size() || view.ids[next] != id) {
      // view.ids is sorted: the view is in order of arrival, and ids grow with arrival.
      next = static_cast<std::size_t>(std::ranges::lower_bound(view.ids, id) - view.ids.begin());
    }
    const std::size_t i = next++;
    scheduled[i] = 1;
    const std::int32_t rows = planned.num_new_tokens + planned.max_drafts;
    watched.rows -= rows;
    blocks.run(static_cast<std::int32_t>(i), view.end(i, rows));
    if (view.running(i)) continue;
    if (!is_carried_out) admits[i] = rehearsed_admissions_.insert(view.ids[i]).second;
    --watched.num_seqs_left;
  }
  watched.blocks = blocks.num_free();
  for (std::size_t i = 0; i < view.live.size(); ++i) {
    if (!view.running(i)) continue;
    --watched.num_seqs_left;
    // Running sequences keep the blocks for their known tokens and one more each; these do not count as room.
    watched.blocks -= std::max<std::int64_t>(0, view.blocks_for(i, view.remaining(i)) - view.held[i]) + 1;
  }
  if (!plan.preempted.empty()) watched.blocks = -1;  // a plan that preempts has no room left
  const auto need = [&](std::size_t i) -> SequenceNeed {
    const Sequence& sequence = *view.live[i];
    const std::int32_t to_generate = std::max(0, sequence.max_tokens - sequence.num_generated());
    const std::int64_t blocks = view.blocks_for(i, view.remaining(i) + to_generate) + 1;
    return {view.remaining(i) + to_generate, blocks - (view.running(i) ? view.held[i] : 0)};
  };
  return starvation_.look(watched, need);
}

// Sequence `first` always runs; if blocks are lacking, the latest sequences are preempted. Then all sequences that fit
// run, in order of arrival.
StepPlan Planner::first_come_first_served(const View& view, const mortise_schedule_view& abi_view,
                                          std::size_t first) const {
  StepPlan result;
  PlanBlocks blocks(abi_view);
  std::int32_t rows = 0;
  // Returns the sequence at a position of the order: `first`, then the others in order of arrival.
  const auto at = [&](std::size_t order_index) {
    return order_index == 0 ? first : order_index <= first ? order_index - 1 : order_index;
  };
  std::size_t last = view.live.size();  // sequences from this position on are preempted, or wait
  std::int64_t num_running = std::count(view.states.begin(), view.states.end(), MORTISE_SEQ_RUNNING);
  for (std::size_t order_index = 0; order_index < last && rows < limits_.max_batched_tokens; ++order_index) {
    const std::size_t i = at(order_index);
    const bool is_first = order_index == 0;
    if (!view.running(i) && num_running >= limits_.max_num_seqs && !is_first) continue;
    const std::int32_t budget = limits_.max_batched_tokens - rows;
    const auto rows_of = [&](std::int32_t tokens) { return tokens + view.drafts(i, tokens, view.least_drafts(i)); };
    std::int32_t n = std::min(view.remaining(i), budget);
    while (n > 1 && rows_of(n) > budget) --n;
    if (n < 1 || rows_of(n) > budget) break;
    const auto index = static_cast<std::int32_t>(i);
    const auto fits = [&](std::int32_t num_rows) {
      return blocks.needed(index, view.end(i, num_rows)) <= blocks.num_free();
    };
    const auto short_of_room = [&] {
      return !fits(rows_of(n)) || (!view.running(i) && num_running >= limits_.max_num_seqs);
    };
    while (is_first && short_of_room() && last > 1) {
      const std::size_t victim = at(--last);
      if (!view.running(victim)) continue;
      result.preempted.push_back(view.live[victim]);
      blocks.preempt(static_cast<std::int32_t>(victim));
      --num_running;
    }
    if (is_first && last == 1 && short_of_room()) {
      // The sequence fits if it is alone and the pinned blocks are free.
      const std::int64_t num_free = limits_.num_blocks - (view.running(i) ? view.held[i] : 0);
      blocks.take(blocks.num_free() - num_free);
      result.drop_pins = true;
    }
    while (n > 1 && !fits(rows_of(n))) --n;
    if (short_of_room()) continue;
    std::int32_t drafts = view.drafts(i, n, view.lookahead[i]);
    while (n + drafts > rows_of(n) && (n + drafts > budget || !fits(n + drafts))) --drafts;
    result.scheduled.push_back({view.live[i], n, drafts});
    blocks.run(index, view.end(i, n + drafts));
    rows += n + drafts;
    num_running += view.running(i) ? 0 : 1;
  }
  return result;
}

}  // namespace mortise
