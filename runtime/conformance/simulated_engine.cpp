#include "conformance/simulated_engine.hpp"

#include <algorithm>
#include <cassert>
#include <set>

#include "mortise/plan_blocks.hpp"

namespace mortise::conformance {
namespace {

int32_t blocks_for(int64_t tokens, int32_t block_size) {
  return static_cast<int32_t>((tokens + block_size - 1) / block_size);
}

struct Plan {
  mortise_schedule_plan abi{};
  std::vector<int32_t> seqs, new_tokens, preempted, pins, pin_tokens, drafts;

  explicit Plan(const std::vector<int32_t>& lookahead)
      : seqs(lookahead.size(), -1),
        new_tokens(lookahead.size(), -1),
        preempted(lookahead.size(), -1),
        pins(lookahead.size(), -1),
        pin_tokens(lookahead.size(), -1),
        drafts(lookahead) {
    abi.struct_size = sizeof abi;
    abi.num_scheduled = abi.num_preempted = abi.num_pins = -1;
    abi.seqs = seqs.data();
    abi.num_new_tokens = new_tokens.data();
    abi.preempted = preempted.data();
    abi.pins = pins.data();
    abi.pin_tokens = pin_tokens.data();
    abi.max_drafts = drafts.data();
  }
  bool operator==(const Plan& other) const {
    return seqs == other.seqs && new_tokens == other.new_tokens && preempted == other.preempted && pins == other.pins &&
           pin_tokens == other.pin_tokens && drafts == other.drafts;
  }
};

}  // namespace

SimulatedEngine::View::View(const SimulatedEngine& engine) : cached_free(engine.cache_.num_blocks()), engine(engine) {
  abi.struct_size = sizeof abi;
  for (std::size_t i = 0; i < engine.live_.size(); ++i) {
    if (engine.options_.holds_back && engine.is_held_back(engine.live_[i], i)) continue;
    live.push_back(i);
    add(engine.live_[i]);
  }
  if (engine.options_.whole_drafts) abi.flags = MORTISE_VIEW_WHOLE_DRAFTS;
  abi.step_id = static_cast<uint64_t>(engine.num_steps_);
  abi.num_seqs = static_cast<int32_t>(ids.size());
  abi.block_size = engine.options_.block_size;
  abi.token_budget = engine.options_.token_budget;
  abi.seq_budget = engine.options_.seq_budget;
  abi.num_free_blocks = static_cast<int32_t>(engine.cache_.num_available());
  abi.num_blocks = engine.options_.num_blocks;
  abi.seq_ids = abi.arrivals = ids.data();
  abi.states = states.data();
  abi.num_tokens = num_tokens.data();
  abi.num_computed = num_computed.data();
  abi.num_cached = num_cached.data();
  cached_free.find(paths, engine.cache_);
  abi.num_cached_free_blocks = cached_free.num_cached_free().data();
  abi.cached_free_with = cached_free.with().data();
  abi.cached_free_shared = cached_free.num_shared().data();
  abi.blocks_held = held.data();
  abi.blocks_freed_if_preempted = freed.data();
  abi.lookahead = lookahead.data();
  abi.priorities = priorities.data();
  abi.groups = groups.data();
  abi.host_data = this;
  abi.blocks_freed = [](const void* self, const int32_t* seqs, int32_t num_seqs) {
    return static_cast<const View*>(self)->blocks_freed({seqs, static_cast<std::size_t>(num_seqs)});
  };
}

void SimulatedEngine::View::add(const Sequence& s) {
  ids.push_back(s.id);
  groups.push_back(s.request.group);
  states.push_back(s.running() ? MORTISE_SEQ_RUNNING : MORTISE_SEQ_WAITING);
  num_tokens.push_back(s.num_tokens());
  num_computed.push_back(s.num_computed);
  num_cached.push_back(s.running() ? 0 : s.num_cached);
  paths.push_back(s.running() || s.path.empty() ? kPrefixRoot : s.path.back());
  held.push_back(static_cast<int32_t>(s.blocks.size()));
  freed.push_back(static_cast<int32_t>(
      std::ranges::count_if(s.blocks, [&](BlockId block) { return engine.cache_.num_holders(block) == 1; })));
  // Counts as the engine does: a step yields one token more than the accepted drafts, and the last token is never run.
  const auto left = static_cast<int32_t>(s.last_token) - s.num_tokens() - 1;
  lookahead.push_back(std::clamp(left, 0, engine.options_.max_lookahead));
  priorities.push_back(s.request.priority);
}

int32_t SimulatedEngine::View::blocks_freed(std::span<const int32_t> seqs) const {
  std::multiset<BlockId> released;
  for (const int32_t i : seqs) {
    if (i < 0 || i >= abi.num_seqs) {  // an exception must not pass through the plugin
      wrong_question = fmt::format("blocks_freed is asked about index {} of a view of {} sequences", i, abi.num_seqs);
      continue;
    }
    const Sequence& s = engine.live_[live[static_cast<std::size_t>(i)]];
    released.insert(s.blocks.begin(), s.blocks.end());
  }
  int32_t num_freed = 0;
  for (auto at = released.begin(); at != released.end(); at = released.upper_bound(*at)) {
    num_freed += released.count(*at) == engine.cache_.num_holders(*at);
  }
  return num_freed;
}

int64_t SimulatedEngine::View::new_blocks(int32_t i, int32_t end, bool preempts) const {
  const int32_t all = blocks_for(end, abi.block_size);
  if (running(i)) return std::max(0, all - held[i]);
  return all - (preempts ? 0 : num_cached[i] / abi.block_size - cached_free.num_cached_free()[i]);
}

SimulatedEngine::SimulatedEngine(SchedulerCalls scheduler, const SimulationOptions& options, uint64_t seed)
    : scheduler_(std::move(scheduler)),
      options_(options),
      random_(seed),
      cache_(static_cast<std::size_t>(options.num_blocks), options.block_size, options.prefix_cache),
      starvation_({MORTISE_MAX_IDLE_PLANS, int64_t{MORTISE_MAX_PASSED_STEPS} * options.token_budget}) {
  for (int32_t i = 0; i < options.num_prefixes; ++i) {
    const bool extends = options.nested && i > 0 && random_() % 2 == 0;
    std::vector<int32_t> prefix = extends ? prefixes_[random_() % prefixes_.size()] : std::vector<int32_t>();
    const auto longest = static_cast<uint64_t>(std::max(1, options.num_blocks * options.block_size / 8));
    const std::vector<int32_t> own = draw_tokens(1 + static_cast<int32_t>(random_() % longest));
    prefix.insert(prefix.end(), own.begin(), own.end());
    prefixes_.push_back(std::move(prefix));
  }
}

std::vector<int32_t> SimulatedEngine::draw_tokens(int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random_() % 50000));
  return tokens;
}

void SimulatedEngine::add_event(int32_t kind, uint64_t id, int32_t num_tokens) {
  events_.push_back({kind, id, num_tokens, {}});
}

uint64_t SimulatedEngine::submit(SimulatedRequest request) {
  // The last generated token is never run, hence needs no slot.
  const auto last = request.prompt.size() + static_cast<std::size_t>(request.generated);
  assert(blocks_for(static_cast<int64_t>(last) - 1, options_.block_size) <= options_.num_blocks);
  Sequence sequence;
  sequence.id = next_id_++;
  sequence.tokens = request.prompt;
  sequence.last_token = last;
  events_.push_back({MORTISE_EVENT_ADDED, sequence.id, sequence.num_tokens(), request});
  sequence.request = std::move(request);
  live_.push_back(std::move(sequence));
  return live_.back().id;
}

uint64_t SimulatedEngine::submit(int32_t prompt, int32_t generated) {
  return submit({draw_tokens(prompt), generated});
}

SimulatedRequest SimulatedEngine::draw_request() {
  const auto up_to = [&](int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(std::max(n, 1))); };
  const int32_t pool_tokens = options_.num_blocks * options_.block_size;
  SimulatedRequest request;
  const std::size_t prefix = random_() % (prefixes_.size() + 1);
  if (prefix < prefixes_.size()) request.prompt = prefixes_[prefix];
  const bool large = random_() % 16 == 0;  // some requests take nearly the whole pool
  const auto length = static_cast<int32_t>(request.prompt.size());
  const int32_t own = std::min(pool_tokens - length, 1 + up_to(large ? pool_tokens : pool_tokens / 6));
  const std::vector<int32_t> tokens = draw_tokens(own);
  request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.end());
  if (request.prompt.empty()) request.prompt = {1};
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  request.generated = 1 + up_to(std::min(pool_tokens - prompt + 1, large ? pool_tokens : 60));
  request.priority = up_to(options_.num_priorities);
  if (options_.num_groups > 0 && random_() % 2 == 0)
    request.group = 1 + random_() % static_cast<uint64_t>(options_.num_groups);
  return request;
}

void SimulatedEngine::look_up(Sequence& s) const {
  const PrefixPath match = cache_.tree().match(s.tokens);
  s.path = cache_.tree().blocks(match);
  s.path.resize(static_cast<std::size_t>(std::min(match.num_blocks * options_.block_size, s.num_tokens() - 1) /
                                         options_.block_size));
  s.num_cached = static_cast<int32_t>(s.path.size()) * options_.block_size;
}

// Returns whether an earlier sequence of at least its priority computes the block that it needs next, and at least half
// of its work.
bool SimulatedEngine::is_held_back(const Sequence& s, std::size_t index) const {
  if (s.running()) return false;
  const auto end = static_cast<std::size_t>(s.num_cached + options_.block_size);
  if (end > s.tokens.size()) return false;
  for (std::size_t i = 0; i < index; ++i) {
    const Sequence& leader = live_[i];
    const int32_t start = leader.running() ? leader.num_computed : leader.num_cached;
    if (leader.request.priority > s.request.priority || leader.tokens.size() < end) continue;
    if (start / options_.block_size != s.num_cached / options_.block_size) continue;
    const auto common = std::ranges::mismatch(leader.tokens, s.tokens).in1 - leader.tokens.begin();
    if (common < static_cast<std::ptrdiff_t>(end)) continue;
    const auto whole = static_cast<int32_t>(common) / options_.block_size * options_.block_size;
    return 2 * (whole - s.num_cached) >= s.num_tokens() - s.num_cached;
  }
  return false;
}

void SimulatedEngine::release(Sequence& s) {
  cache_.release(s.blocks);
  s.blocks.clear();
  s.num_computed = s.num_published = 0;
  s.publishes = true;
}

void SimulatedEngine::end(Sequence& s) {
  release(s);
  cache_.release(s.pinned);
  s.pinned.clear();
  add_event(MORTISE_EVENT_ENDED, s.id, 0);
}

void SimulatedEngine::abort(uint64_t id) {
  const auto found = std::find_if(live_.begin(), live_.end(), [&](const Sequence& s) { return s.id == id; });
  if (found == live_.end()) return;
  end(*found);
  live_.erase(found);
}

void SimulatedEngine::abort_random() {
  if (!live_.empty()) abort(live_[random_() % live_.size()].id);
}

void SimulatedEngine::admit(Sequence& s) {
  if (!std::exchange(s.was_started, true)) starts_.push_back({s.id, num_steps_, s.num_cached});
  cache_.hold(s.path);
  s.blocks = s.path;
  s.num_published = static_cast<int32_t>(s.path.size());
  s.num_computed = s.num_cached;
}

void SimulatedEngine::run(Sequence& s, int32_t n, int32_t drafts) {
  const bool ends = s.num_computed + n == s.num_tokens();
  const int32_t end = s.num_computed + n + (ends ? drafts : 0);
  const int32_t needed = blocks_for(end, options_.block_size) - static_cast<int32_t>(s.blocks.size());
  if (needed > 0) {
    const auto fresh = cache_.allocate(static_cast<std::size_t>(needed));
    expect(fresh.has_value(), "the plan uses more blocks than there are");
    s.blocks.insert(s.blocks.end(), fresh->begin(), fresh->end());
  }
  num_rows_ += end - s.num_computed;
  num_prompt_rows_ += std::max(0, std::min(end, static_cast<int32_t>(s.request.prompt.size())) - s.num_computed);
  s.num_computed += n;
  if (ends) {
    const auto accepted = static_cast<int32_t>(random_() % static_cast<uint64_t>(drafts + 1));
    s.num_computed += accepted;
    const std::vector<int32_t> drawn = draw_tokens(accepted + 1);
    s.tokens.insert(s.tokens.end(), drawn.begin(), drawn.end());
    assert(s.tokens.size() <= s.last_token);
  }
  const auto block_size = static_cast<std::size_t>(options_.block_size);
  while (s.publishes && (s.num_published + 1) * options_.block_size <= s.num_computed) {
    const auto index = static_cast<std::size_t>(s.num_published);
    const auto node =
        cache_.publish(index == 0 ? kPrefixRoot : s.blocks[index - 1],
                       std::span<const int32_t>(s.tokens).subspan(index * block_size, block_size), s.blocks[index]);
    s.publishes = node.has_value();
    if (!node) break;
    s.blocks[index] = *node;
    ++s.num_published;
  }
}

void SimulatedEngine::pin(Sequence& s, int32_t num_tokens) {
  const auto first = std::span<const int32_t>(s.tokens).first(static_cast<std::size_t>(num_tokens));
  const std::vector<BlockId> path = cache_.tree().blocks(cache_.tree().match(first));
  cache_.hold(path);
  cache_.release(s.pinned);
  s.pinned = path;
  if (path.empty()) return;
  ++num_pins_;
  add_event(MORTISE_EVENT_PREFIX_RESIDENT, s.id, static_cast<int32_t>(path.size()) * options_.block_size);
}

void SimulatedEngine::drop_pins() {
  for (Sequence& s : live_) {
    if (s.pinned.empty()) continue;
    cache_.release(s.pinned);
    s.pinned.clear();
    ++num_dropped_pins_;
    add_event(MORTISE_EVENT_PREFIX_EVICTED, s.id, 0);
  }
}

void SimulatedEngine::check(const View& view, const mortise_schedule_plan& plan) const {
  const int32_t size = view.abi.num_seqs;
  expect(plan.num_scheduled >= 1, "num_scheduled is {} although the oldest sequence has room", plan.num_scheduled);
  for (const auto& [count, name] :
       {std::pair(plan.num_scheduled, "num_scheduled"), std::pair(plan.num_preempted, "num_preempted"),
        std::pair(plan.num_pins, "num_pins")}) {
    expect(count >= 0 && count <= size, "{} is {} in a view of {} sequences", name, count, size);
  }
  std::vector<int32_t> tokens(static_cast<std::size_t>(size), 0);
  std::vector<char> preempted(static_cast<std::size_t>(size), 0);
  int64_t rows = 0, blocks = view.abi.num_free_blocks;
  PlanBlocks counted(view.abi);
  std::set<BlockId> taken;
  for (int32_t k = 0; k < plan.num_preempted; ++k) {
    const int32_t i = plan.preempted[k];
    expect(i >= 0 && i < size, "preempted[{}] is {} in a view of {} sequences", k, i, size);
    expect(view.running(i), "preempted[{}] is {}, a sequence that does not run", k, i);
    expect(!std::exchange(preempted[i], 1), "preempted[{}] is {}, which is given twice", k, i);
    counted.preempt(i);
  }
  blocks += view.blocks_freed({plan.preempted, static_cast<std::size_t>(plan.num_preempted)});
  for (int32_t k = 0; k < plan.num_scheduled; ++k) {
    const int32_t i = plan.seqs[k];
    const int32_t n = plan.num_new_tokens[k];
    expect(i >= 0 && i < size, "seqs[{}] is {} in a view of {} sequences", k, i, size);
    expect(!preempted[i], "seqs[{}] is {}, which the plan also preempts", k, i);
    expect(tokens[i] == 0, "seqs[{}] is {}, which is given twice", k, i);
    expect(n >= 1 && n <= view.remaining(i), "num_new_tokens[{}] is {}, but the sequence has {} tokens to run", k, n,
           view.remaining(i));
    tokens[i] = n;
    const int32_t drafts = plan.max_drafts[i];
    expect(drafts >= 0 && drafts <= view.lookahead[i], "max_drafts[{}] is {}, but lookahead is {}", i, drafts,
           view.lookahead[i]);
    expect(!options_.whole_drafts || n < view.remaining(i) || drafts == view.lookahead[i],
           "max_drafts[{}] is {}, but MORTISE_VIEW_WHOLE_DRAFTS asks for all {}", i, drafts, view.lookahead[i]);
    const int32_t end = view.end(i, n, drafts);
    rows += end - view.run_begin(i);
    blocks -= view.new_blocks(i, end, plan.num_preempted > 0);
    if (!view.running(i) && plan.num_preempted == 0) {
      int32_t num_left = 0;  // blocks that several admitted sequences share are taken once
      for (const BlockId block : live_[view.live[i]].path) {
        num_left += cache_.is_cached_free(block) && taken.insert(block).second;
      }
      blocks += view.abi.num_cached_free_blocks[i] - num_left;
    }
    counted.run(i, end);
    assert(counted.num_free() == blocks);
  }
  expect(rows <= view.abi.token_budget, "the plan has {} rows, but token_budget is {}", rows, view.abi.token_budget);
  expect(blocks >= 0, "the plan uses {} more blocks than are free", -blocks);
  for (int32_t k = 0; k < plan.num_pins; ++k) {
    const int32_t i = plan.pins[k];
    expect(i >= 0 && i < size, "pins[{}] is {} in a view of {} sequences", k, i, size);
    expect(plan.pin_tokens[k] >= 0 && plan.pin_tokens[k] <= view.num_tokens[i],
           "pin_tokens[{}] is {}, but the sequence has {} tokens", k, plan.pin_tokens[k], view.num_tokens[i]);
  }
  int32_t num_running = 0;
  for (int32_t i = 0; i < size; ++i) num_running += (view.running(i) && !preempted[i]) || tokens[i] > 0;
  expect(num_running <= view.abi.seq_budget, "{} sequences would run, but seq_budget is {}", num_running,
         view.abi.seq_budget);
  check_policy(view, tokens, preempted);
}

// Does what the host does (runtime/engine/planner).
void SimulatedEngine::check_starvation(const View& view, const mortise_schedule_plan& plan) {
  std::vector<char> scheduled(view.ids.size(), 0);
  WatchedPlan watched{view.ids, view.priorities, view.states, scheduled};
  watched.rows = options_.token_budget;
  watched.num_seqs_left = options_.seq_budget - std::count(view.states.begin(), view.states.end(), MORTISE_SEQ_RUNNING);
  watched.blocks = plan.num_preempted > 0 ? -1 : view.abi.num_free_blocks;
  for (int32_t k = 0; k < plan.num_scheduled; ++k) {
    const int32_t i = plan.seqs[k], end = view.end(i, plan.num_new_tokens[k], plan.max_drafts[i]);
    scheduled[static_cast<std::size_t>(i)] = 1;
    watched.rows -= end - view.run_begin(i);
    watched.blocks -= view.new_blocks(i, end, plan.num_preempted > 0);
    if (!view.running(i)) --watched.num_seqs_left;
  }
  for (int32_t i = 0; i < view.abi.num_seqs; ++i) {
    if (view.running(i)) watched.blocks -= view.new_blocks(i, view.num_tokens[i], false) + 1;
  }
  const auto need = [&](std::size_t at) -> SequenceNeed {
    const auto i = static_cast<int32_t>(at);
    const auto last = static_cast<int64_t>(live_[view.live[at]].last_token);
    return {last - view.run_begin(i), blocks_for(last, options_.block_size) + 1 - (view.running(i) ? view.held[i] : 0)};
  };
  if (const auto starved = starvation_.look(watched, need)) throw CaseFailed(starved->why);
}

// Returns whether this is the one case in which a plan may be empty.
bool SimulatedEngine::lacks_room_for_the_oldest(const View& view) const {
  PlanBlocks blocks(view.abi);
  for (int32_t i = 1; i < view.abi.num_seqs; ++i) {
    if (view.running(i)) blocks.preempt(i);
  }
  return blocks.needed(0, view.run_begin(0) + 1) > blocks.num_free();
}

void SimulatedEngine::tell_events() {
  std::vector<int32_t> kinds, num_tokens, max_new_tokens, priorities;
  std::vector<uint64_t> ids, groups;
  std::vector<const int32_t*> tokens;
  const std::vector<Event> told = std::exchange(events_, {});
  for (const Event& event : told) {
    kinds.push_back(event.kind);
    ids.push_back(event.id);
    num_tokens.push_back(event.num_tokens);
    tokens.push_back(event.kind == MORTISE_EVENT_ADDED ? event.added.prompt.data() : nullptr);
    max_new_tokens.push_back(event.kind == MORTISE_EVENT_ADDED ? event.added.generated : 0);
    priorities.push_back(event.added.priority);
    groups.push_back(event.added.group);
  }
  mortise_schedule_events events{};
  events.struct_size = sizeof events;
  events.num_events = static_cast<int32_t>(kinds.size());
  events.kinds = kinds.data();
  events.seq_ids = ids.data();
  events.num_tokens = num_tokens.data();
  events.tokens = tokens.data();
  events.max_new_tokens = max_new_tokens.data();
  events.priorities = priorities.data();
  events.groups = groups.data();
  scheduler_.events(events);
}

void SimulatedEngine::swap_scheduler(SchedulerCalls scheduler) {
  scheduler_ = std::move(scheduler);
  drop_pins();  // as the host does, because the scheduler that wanted the pins is gone
  events_.clear();
  for (const Sequence& s : live_) {
    SimulatedRequest now = s.request;
    now.prompt = s.tokens;
    now.generated = static_cast<int32_t>(s.last_token - s.tokens.size());
    events_.push_back({MORTISE_EVENT_ADDED, s.id, s.num_tokens(), std::move(now)});
  }
}

void SimulatedEngine::replace(const View& view, mortise_schedule_plan& plan) const {
  plan.num_scheduled = plan.num_preempted = plan.num_pins = 0;
  PlanBlocks blocks(view.abi);
  int64_t rows = view.abi.token_budget;
  int64_t places = view.abi.seq_budget - std::ranges::count(view.states, MORTISE_SEQ_RUNNING);
  std::vector<int32_t> order(view.ids.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::ranges::stable_sort(order, {}, [&](int32_t i) { return !view.running(i); });
  for (auto later = order.rbegin(); later != order.rend(); ++later) {  // the first needs room for a row
    const int32_t first = order.front();
    const int32_t row = view.remaining(first) == 1 && options_.whole_drafts ? 1 + view.lookahead[first] : 1;
    if (blocks.needed(first, view.run_begin(first) + row) <= blocks.num_free()) break;
    if (*later == first || !view.running(*later)) continue;
    plan.preempted[plan.num_preempted++] = *later;
    blocks.preempt(*later);
  }
  for (const int32_t i : order) {
    if (std::find(plan.preempted, plan.preempted + plan.num_preempted, i) != plan.preempted + plan.num_preempted)
      continue;
    if (!view.running(i) && places == 0) continue;
    plan.max_drafts[i] = options_.whole_drafts ? view.lookahead[i] : 0;
    const auto fits = [&](int32_t n) {
      const int32_t end = view.end(i, n, plan.max_drafts[i]);
      return end - view.run_begin(i) <= rows && blocks.needed(i, end) <= blocks.num_free();
    };
    int32_t n = view.remaining(i);
    while (n > 0 && !fits(n)) --n;
    if (n == 0) continue;
    plan.seqs[plan.num_scheduled] = i;
    plan.num_new_tokens[plan.num_scheduled++] = n;
    const int32_t end = view.end(i, n, plan.max_drafts[i]);
    blocks.run(i, end);
    rows -= end - view.run_begin(i);
    places -= view.running(i) ? 0 : 1;
  }
}

void SimulatedEngine::look_up_waiting() {
  for (Sequence& s : live_) {
    if (!s.running()) look_up(s);
  }
}

void SimulatedEngine::with_view(const std::function<void(const mortise_schedule_view&, mortise_schedule_plan&)>& ask) {
  if (live_.empty()) return;
  look_up_waiting();
  const View view(*this);
  Plan plan(view.lookahead);
  ask(view.abi, plan.abi);
}

void SimulatedEngine::step_by_host() {
  if (live_.empty()) return;
  look_up_waiting();
  const View view(*this);
  Plan plan(view.lookahead);
  ++num_steps_;
  replace(view, plan.abi);
  if (plan.abi.num_scheduled == 0 && num_pins_ > 0) return drop_pins();
  check(view, plan.abi);
  carry_out(view, plan.abi);
}

void SimulatedEngine::step() {
  if (live_.empty()) return;
  tell_events();
  look_up_waiting();
  const View view(*this);
  Plan plan(view.lookahead), again(view.lookahead);
  scheduler_.plan(view.abi, plan.abi);
  scheduler_.plan(view.abi, again.abi);
  expect(view.wrong_question.empty(), "{}", view.wrong_question);
  expect(plan == again, "two plans of the same view differ");
  ++num_steps_;
  if (static_cast<int>(random_() % 100) < options_.percent_replaced) replace(view, plan.abi);
  if (plan.abi.num_scheduled == 0 && num_pins_ > 0 && lacks_room_for_the_oldest(view)) return drop_pins();
  check(view, plan.abi);
  if (options_.percent_replaced == 0) check_starvation(view, plan.abi);
  carry_out(view, plan.abi);
}

void SimulatedEngine::carry_out(const View& view, const mortise_schedule_plan& plan) {
  const auto sequence = [&](int32_t i) -> Sequence& { return live_[view.live[static_cast<std::size_t>(i)]]; };
  for (int32_t k = 0; k < plan.num_preempted; ++k) release(sequence(plan.preempted[k]));
  // All admitted sequences take their cached blocks before any sequence allocates, because an allocation may evict
  // cached blocks.
  for (int32_t k = 0; k < plan.num_scheduled; ++k) {
    if (!sequence(plan.seqs[k]).running()) admit(sequence(plan.seqs[k]));
  }
  for (int32_t k = 0; k < plan.num_scheduled; ++k) {
    const int32_t i = plan.seqs[k];
    run(sequence(i), plan.num_new_tokens[k], plan.max_drafts[i]);
  }
  for (int32_t k = 0; k < plan.num_pins; ++k) pin(sequence(plan.pins[k]), plan.pin_tokens[k]);
  for (Sequence& s : live_) {
    if (s.ended()) end(s);
  }
  num_finished_ += std::erase_if(live_, [](const Sequence& s) { return s.ended(); });
  num_preemptions_ += plan.num_preempted;
}

}  // namespace mortise::conformance
