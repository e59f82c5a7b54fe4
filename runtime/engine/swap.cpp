// Engine::swap exchanges parts between two steps. Everything except swap() itself runs on the engine's thread.
#include "engine/swap.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "counted.hpp"
#include "engine/engine.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;

bool same_instances(const ShardParts& a, const ShardParts& b) {
  return a.device.self == b.device.self && a.model.self == b.model.self && a.attention.self == b.attention.self;
}

bool same_instances(const Drafting& drafting, const std::vector<ActiveProposer>& proposers) {
  return std::ranges::equal(drafting.proposers(), proposers, {}, &ActiveProposer::self, &ActiveProposer::self);
}

}  // namespace

std::optional<std::string> misfit(const Sequence& sequence, const EngineLimits& limits) {
  const std::int32_t length = sequence.num_prompt + sequence.max_tokens;
  if (length > limits.max_model_len) {
    return fmt::format("it may become {} long, but max_model_len is {}", counted(length, "token"),
                       limits.max_model_len);
  }
  const std::int32_t needed = (length + limits.block_size - 1) / limits.block_size;
  if (needed <= limits.num_blocks) return std::nullopt;
  return fmt::format("it may need {} of {} tokens, but kv_cache.memory holds {}", counted(needed, "KV block"),
                     limits.block_size, limits.num_blocks);
}

SwapFigures Engine::swap(MakeReplacement make, std::int32_t verify_steps, std::stop_token cancel) {
  if (verify_steps < 0) fail("verify_steps is {}; it must be at least 0", verify_steps);
  const auto order = std::make_shared<SwapOrder>(std::move(make), verify_steps, std::move(cancel));
  std::future<SwapFigures> done = order->done.get_future();
  inbox_.put(order);
  return done.get();
}

void Engine::carry_out(const std::shared_ptr<SwapOrder>& order) {
  if (verified_swap_) {
    order->done.set_exception(std::make_exception_ptr(
        Error("a swap with verify_steps is under way; wait for its end", ErrorCode::kConflict)));
  } else if (order->verify_steps > 0) {
    begin_verified(order);
  } else {
    gaps_.begin();
    carry_out(order, order->make, nullptr, {});
  }
}

void Engine::begin_verified(const std::shared_ptr<SwapOrder>& order) {
  try {
    Replacement candidate = made(order->make, {.step_meanwhile = [this] { step_meanwhile(); }});
    check_replacement(candidate);
    gaps_.begin();
    auto swap = std::make_unique<VerifiedSwap>(order, std::move(candidate), *setup_, context(), generation_ + 1);
    if (swap->has_own_kv()) swap->num_recomputed = give_up_kv();
    for (const auto& sequence : live_) swap->added(sequence);
    verified_swap_ = std::move(swap);
  } catch (...) {
    order->done.set_exception(std::current_exception());
  }
}

// Carries out or refuses the verified swap. REQUIRES: verified_swap_->is_over().
void Engine::settle_verified() {
  std::unique_ptr<VerifiedSwap> over = std::move(verified_swap_);
  const std::shared_ptr<SwapOrder> order = over->order();
  if (const std::exception_ptr refusal = over->refusal()) {
    over.reset();  // the candidate is destroyed before the caller learns of the refusal
    return order->done.set_exception(refusal);
  }
  const SwapFigures figures = over->figures(*setup_->drafting);
  VerifiedSwap::Verified verified = over->take();
  over.reset();
  const auto take_in = [&](const StepUse& use) {
    verified.candidate.fit(use);
    return std::move(verified.candidate);
  };
  carry_out(order, take_in, &verified, figures);
}

void Engine::carry_out(const std::shared_ptr<SwapOrder>& order, const MakeReplacement& make,
                       VerifiedSwap::Verified* verified, SwapFigures figures) {
  try {
    tell_when_streams_go_on(carry_out(
                                make, [this] { step_meanwhile(); }, verified, std::move(figures)),
                            [order](const SwapFigures& all) { order->done.set_value(all); });
  } catch (...) {
    order->done.set_exception(std::current_exception());
  }
}

void Engine::tell_when_streams_go_on(SwapFigures figures, std::function<void(const SwapFigures&)> tell) {
  gaps_.when_ended([figures = std::move(figures), tell = std::move(tell)](GapWatch::Seconds largest) mutable {
    figures.largest_gap_s = largest.count();
    tell(figures);
  });
}

// Runs a step between two calls that make new parts, so that streams continue. Another swap waits until this one has
// ended.
void Engine::step_meanwhile() {
  trace_.end(counters_);
  if (take_requests(inbox_.take(/*waits=*/false, {}))) step_and_report();
  trace_.end(counters_);
  trace_.begin(StepPhase::kInbox);
}

Replacement Engine::made(const MakeReplacement& make, const StepUse& use) const {
  const std::uint64_t generation = generation_;
  Replacement next = make(use);
  if (generation == generation_) return next;
  fail(ErrorCode::kConflict, "a part failed meanwhile, and its predecessor was restored; ask again");
}

// Throws what `make` and the exchange throw; the previous parts continue then.
SwapFigures Engine::carry_out(const MakeReplacement& make, const std::function<void()>& step_meanwhile,
                              VerifiedSwap::Verified* verified, SwapFigures figures) {
  Clock::time_point begin;
  const auto begin_pause = [&] {
    gaps_.exchange(live_);
    begin = Clock::now();
  };
  const auto end_pause = [&] {
    const std::chrono::duration<double> took = Clock::now() - begin;
    if (!live_.empty()) figures.pause_s = std::max(figures.pause_s, took.count());
  };
  std::vector<ShardParts> released;  // the serving parts, set once their buffers may have moved
  std::uint64_t num_replays = 0;     // graph replays of the serving parts, read before they are released
  bool gave_up_kv = false;
  const StepUse use = {.give_up_kv =
                           [&] {
                             figures.num_recomputed += give_up_kv();
                             gave_up_kv = true;
                           },
                       .release_buffers =
                           [&] {
                             num_replays = setup_->execution->num_graph_replays();
                             released = setup_->execution->snapshot()->shards;
                             setup_->execution->release();
                           },
                       .step_meanwhile =
                           [&] {
                             if (gave_up_kv || !released.empty()) return;
                             end_pause();
                             step_meanwhile();
                             begin_pause();
                           }};
  begin_pause();
  try {
    Replacement next = made(make, use);
    if (released.empty()) num_replays = setup_->execution->num_graph_replays();
    figures.num_recomputed += exchange(std::move(next), num_replays, verified);
  } catch (...) {
    if (!released.empty()) resume(released);
    throw;
  }
  stats_changed_ = true;
  publish_stats();
  figures.generation = generation_;
  end_pause();
  return figures;
}

// Builds everything that the new parts and sizes need, then puts it in. Verified schedulers and proposers know the
// sequences already. `num_replays`: graph replays of the parts that are replaced. Returns how many sequences lost their
// KV.
std::size_t Engine::exchange(Replacement next, std::uint64_t num_replays, VerifiedSwap::Verified* verified) {
  Setup& now = *setup_;
  check_replacement(next);
  const bool same_sizes = next.limits.same_sizes(now.limits);
  const bool keeps_kv = next.same_kv && next.limits.num_blocks == now.limits.num_blocks &&
                        next.limits.block_size == now.limits.block_size &&
                        next.limits.prefix_cache == now.limits.prefix_cache;
  const bool same_execution = same_sizes && same_instances(now.execution->snapshot()->shards.front(), next.parts);
  auto terms = std::make_shared<const RequestTerms>(terms_of(next.parts, next.limits));

  Fresh fresh;
  if (verified != nullptr) {
    fresh.planner = std::move(verified->planner);
    fresh.drafting = std::move(verified->drafting);
  }
  const bool tells_planner = !fresh.planner;
  if (!same_sizes) {
    fresh.all = std::make_unique<Setup>(next.parts, next.limits, context(), generation_ + 1);
    if (fresh.planner) fresh.all->planner = std::move(fresh.planner);
    if (fresh.drafting) fresh.all->drafting = std::move(fresh.drafting);
  } else {
    if (!fresh.planner && next.parts.scheduler.self != now.planner->scheduler().self) {
      fresh.planner = std::make_unique<Planner>(next.parts.scheduler, now.limits, messages_);
    }
    if (!fresh.drafting && !same_instances(*now.drafting, next.parts.proposers)) {
      fresh.drafting =
          std::make_unique<Drafting>(next.parts.proposers, now.limits, model_.vocab_size, messages_, hooks_.clock);
    }
    if (!keeps_kv) fresh.kv = std::make_unique<SequenceKv>(now.limits, hooks_.kv_observer);
  }
  if (Planner* const planner = fresh.all ? fresh.all->planner.get() : fresh.planner.get(); planner && tells_planner) {
    for (const auto& sequence : live_) planner->added(sequence);  // before any other call
  }
  if (same_sizes && !same_execution) now.execution->replace(next.parts.shards(), generation_ + 1);

  // Nothing after this point fails.
  ++generation_;
  if (same_sizes) {
    now.limits.max_drafts = next.limits.max_drafts;
    now.execution->set_max_drafts(next.limits.max_drafts);
  }
  if (!same_execution) carried_.num_graph_replays += num_replays;
  std::size_t num_recomputed = keeps_kv ? 0 : give_up_kv();
  put_in(std::move(fresh), keeps_kv);
  num_recomputed += free_places();
  terms_.store(std::move(terms));
  fallbacks_ = std::move(next.fallbacks);
  next.taken();
  return num_recomputed;
}

void Engine::put_in(Fresh fresh, bool keeps_kv) {
  Setup& now = *setup_;
  if (fresh.all || fresh.planner) {
    carried_.num_rejected_plans += now.planner->num_rejected_plans();
    carried_.num_starved += now.planner->num_starved();
    for (const auto& sequence : live_) now.kv->pin(*sequence, 0);  // the scheduler that wanted the pins is replaced
  }
  const bool redrafts = fresh.all || fresh.drafting;
  if (redrafts) {
    carried_.num_proposer_failures += now.drafting->num_failures();
    carried_.speculation.add(now.drafting->stats());
  }
  if (!keeps_kv) carried_.num_evicted_blocks += now.kv->cache().num_evictions();
  if (fresh.all) {
    if (keeps_kv) fresh.all->kv = std::move(now.kv);
    setup_ = std::move(fresh.all);
  } else {
    if (fresh.kv) now.kv = std::move(fresh.kv);
    if (fresh.planner) now.planner = std::move(fresh.planner);
    if (fresh.drafting) now.drafting = std::move(fresh.drafting);
  }
  if (!redrafts) return;
  for (const auto& sequence : live_) setup_->drafting->welcome(*sequence);
}

// Throws an Error if a running or waiting sequence could not continue with these sizes.
void Engine::check_replacement(const Replacement& next) const {
  for (const auto& sequence : live_) {
    const std::optional<std::string> why = misfit(*sequence, next.limits);
    if (!why) continue;
    fail(ErrorCode::kConflict,
         "request {}, which has not ended, could not continue: {}; wait for its end, or choose larger sizes",
         sequence->owner->id, *why);
  }
  const EngineLimits& now = setup_->limits;
  if (hooks_.kv_observer == nullptr) return;
  if (next.limits.num_blocks == now.num_blocks && next.limits.block_size == now.block_size) return;
  fail(ErrorCode::kConflict,
       "KV events are published for {} blocks of {} tokens, but there would be {} of {}; keep block_size and "
       "kv_cache.memory, or restart the server",
       now.num_blocks, now.block_size, next.limits.num_blocks, next.limits.block_size);
}

// Makes all sequences wait as after a preemption, and empties the prefix cache. Returns how many of them ran.
std::size_t Engine::give_up_kv() {
  drop_pins();
  std::size_t num_preempted = 0;
  for (const auto& sequence : live_) {
    if (sequence->running()) {
      preempt(*sequence);
      ++num_preempted;
    }
    setup_->kv->forget(*sequence);
  }
  setup_->kv->clear();
  return num_preempted;
}

// A plan may not run more sequences than there are places now, so the latest sequences are preempted. Returns how many.
std::size_t Engine::free_places() {
  auto num_running = std::ranges::count_if(live_, [](const auto& sequence) { return sequence->running(); });
  std::size_t num_preempted = 0;
  for (auto at = live_.rbegin(); at != live_.rend() && num_running > setup_->limits.max_num_seqs; ++at) {
    if (!(*at)->running()) continue;
    preempt(**at);
    --num_running;
    ++num_preempted;
  }
  return num_preempted;
}

// Puts the previous parts back after a swap that failed once their buffers had moved.
void Engine::resume(const std::vector<ShardParts>& before) {
  try {
    setup_->execution->replace(before, ++generation_);
  } catch (const std::exception& exception) {
    before.front().model.health->fail(
        fmt::format("the previous parts could not be restored after a failed swap: {}", exception.what()));
  }
}

}  // namespace mortise
