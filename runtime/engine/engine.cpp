#include "engine/engine.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/in_flight.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// Thousands of sequences may wait, and each step evicts them from the CPU's caches. So loops over sequences prefetch
// this many sequences ahead. A plan reads only the first bytes of a sequence that keeps waiting.
constexpr std::size_t kAhead = 8, kFirstBytes = 256;
void prefetch(const void* begin, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(begin) + at);
}
void prefetch(const void* begin, const void* end) {
  prefetch(begin, static_cast<std::size_t>(static_cast<const char*>(end) - static_cast<const char*>(begin)));
}
// Prefetches the fields of a sequence that a commit needs.
void prefetch_to_commit(const Sequence& sequence) {
  prefetch(&sequence, &sequence.prefix);
  prefetch(&sequence.drafts, &sequence.gathered.text);
}
// What a commit needs beside these fields, which must be there.
void prefetch_around(const Sequence& sequence) {
  prefetch(&sequence.owner->news, &sequence.owner->before);
  __builtin_prefetch(sequence.tokens.data() + sequence.tokens.size(), /*rw=*/1);
  __builtin_prefetch(sequence.gathered.tokens.data(), /*rw=*/1);
}

// Combines two reasons to end a choice that were found one after the other: the second counts if there is one.
FinishReason later(FinishReason first, FinishReason second) {
  return second == FinishReason::kNone ? first : second;
}

void count_rows(const BatchComposition& batch, EngineStats& in) {
  in.num_prompt_rows += static_cast<std::uint64_t>(batch.prompt_rows);
  in.num_decode_rows += static_cast<std::uint64_t>(batch.decode_rows);
  in.num_draft_rows += static_cast<std::uint64_t>(batch.draft_rows);
}

}  // namespace

Engine::Engine(const Parts& parts, const EngineLimits& limits, ModelInfo model, const Tokenizer& tokenizer,
               const EngineHooks& hooks)
    : model_(std::move(model)),
      tokenizer_(tokenizer),
      hooks_(hooks),
      terms_(std::make_shared<const RequestTerms>(terms_of(parts, limits))),
      messages_(hooks.breach),
      trace_(hooks.trace, hooks.name),
      setup_(std::make_unique<Setup>(parts, limits, context(), generation_)),
      inbox_(hooks.queue),
      delivery_(DeliveryPool::default_threads(), [this](RequestId id) { abort(id); }),
      outbox_(delivery_) {
  publish_stats();
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  inbox_.stop();
  thread_.join();
  delivery_.stop();
}

RequestTerms Engine::terms_of(const Policies& policies, const EngineLimits& limits) {
  RequestTerms terms{limits, {}};
  for (const ActiveProposer& proposer : policies.proposers) terms.proposers.push_back(proposer.plugin);
  return terms;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Engine::trace_to(TraceFile* file) {
  const auto order = std::make_shared<TraceOrder>();
  order->file = file;
  std::future<void> done = order->done.get_future();
  inbox_.put(order);
  done.get();
}

// Runs between two steps, when the previous file has all events of the last step.
void Engine::change_trace(TraceOrder& order) {
  trace_.write_to(order.file, counters_);
  for (const auto& sequence : live_) trace_.arrived(*sequence);
  order.done.set_value();
}

void Engine::run() {
  while (take_inbox()) {
    step_and_report();
    trace_.end(counters_);
  }
  for (const auto& sequence : live_) end(*sequence, FinishReason::kAborted);
  send_outbox();
  trace_.end(counters_);
  if (verified_swap_) {
    verified_swap_->refuse(ErrorCode::kUnavailable, "the engine ended before the comparison");
    settle_verified();
  }
  gaps_.settle();
  for (const std::string& line : describe(counters_.speculation)) spdlog::info("speculation: {}", line);
}

void Engine::step_and_report() {
  try {
    step();
    if (!setup_->execution->computes_behind()) {
      trace_.phase(StepPhase::kText);
      write_texts();
    }
  } catch (const std::exception& exception) {
    step_failed(exception);
  }
  fall_back_from_broken();
  check_required_parts();
  if (verified_swap_) verified_swap_->end_step(live_);
  gaps_.end_step();
  drop_ended();
  // no step may follow that reports the ended ids
  if (live_.empty()) setup_->drafting->observe({}, ended_ids_, nullptr);
  publish_stats();
  // On a device that computes behind the host, the next step sends the deltas while it waits for the device.
  if (live_.empty() || !setup_->execution->computes_behind()) {
    trace_.phase(StepPhase::kStream);
    send_outbox();
  }
}

StepPlan Engine::plan(std::uint64_t step_id) {
  for (std::size_t i = 0; i < live_.size(); ++i) {
    if (i + kAhead < live_.size()) prefetch(live_[i + kAhead].get(), kFirstBytes);
    if (!live_[i]->running()) setup_->kv->look_up(*live_[i]);
  }
  std::vector<Sequence*> runnable;
  if (setup_->limits.prefix_cache) {
    runnable = without_held_back(live_, setup_->limits.block_size);
  } else {
    for (const auto& sequence : live_) runnable.push_back(sequence.get());
  }
  const std::vector<std::int32_t> lookahead = setup_->drafting->lookaheads(runnable);
  if (!verified_swap_) return setup_->planner->plan(step_id, runnable, lookahead, setup_->kv->cache());
  const double begin = steady_seconds();
  StepPlan plan = setup_->planner->plan(step_id, runnable, lookahead, setup_->kv->cache());
  verified_swap_->plan(step_id, runnable, lookahead, setup_->kv->cache(), steady_seconds() - begin);
  return plan;
}

void Engine::preempt(Sequence& sequence) {
  stats_changed_ = true;
  setup_->kv->release(sequence);
  ++counters_.num_preemptions;
  trace_.mark(sequence, "preempted");
}

// Gives the planned sequences that do not run yet their cached prefixes, and returns these sequences. All are admitted
// before any block is allocated, because an allocation may evict a cached block of their prefixes.
std::vector<Sequence*> Engine::admit(const StepPlan& plan) {
  std::vector<Sequence*> admitted;
  std::optional<std::chrono::steady_clock::time_point> now;
  for (const PlannedSequence& planned : plan.scheduled) {
    if (planned.sequence->running()) continue;
    if (!planned.sequence->started) {
      if (!now) now = std::chrono::steady_clock::now();
      planned.sequence->gathered.started = now;
    }
    requests_.started(*planned.sequence);
    stats_changed_ = true;
    setup_->kv->admit(*planned.sequence);
    counters_.num_admitted_tokens += static_cast<std::uint64_t>(planned.sequence->num_tokens());
    counters_.num_cached_tokens += static_cast<std::uint64_t>(planned.sequence->num_cached);
    admitted.push_back(planned.sequence);
  }
  return admitted;
}

// Writes and sends the texts of the previous step while the device computes this one.
void Engine::send_previous_step() {
  trace_.phase(StepPhase::kText);
  write_texts();
  trace_.phase(StepPhase::kStream);
  send_outbox();
  trace_.phase(StepPhase::kWait);
}

void Engine::set_pins(const std::vector<Pin>& pins) {
  for (const Pin& pin : pins) {
    const std::int32_t kept = setup_->kv->pin(*pin.sequence, pin.num_tokens);
    if (kept > 0) setup_->planner->prefix_resident(pin.sequence->id, kept);
  }
}

void Engine::drop_pins() {
  for (const auto& sequence : live_) {
    if (sequence->pinned.empty()) continue;
    setup_->kv->pin(*sequence, 0);
    setup_->planner->prefix_evicted(sequence->id);
  }
}

void Engine::step() {
  in_step_.clear();
  if (live_.empty()) {
    if (setup_->execution->has_untried_sizes()) setup_->execution->try_next_size();
    return;
  }
  setup_->drafting->begin_step();
  trace_.phase(StepPhase::kPlan);
  const std::uint64_t step_id = counters_.num_steps++;
  StepPlan plan = this->plan(step_id);
  if (plan.scheduled.empty()) throw Error("no sequence can run, although submit() checked that each fits alone");
  std::vector<ScheduledSequence> scheduled;
  for (const PlannedSequence& planned : plan.scheduled) {
    scheduled.push_back({planned.sequence, planned.num_new_tokens, planned.max_drafts});
    in_step_.push_back(planned.sequence);
  }
  for (Sequence* sequence : plan.preempted) preempt(*sequence);
  copy_partial_blocks(admit(plan));
  if (plan.drop_pins) drop_pins();

  trace_.phase(StepPhase::kPropose);
  setup_->drafting->propose(setup_->execution->empty_step(), scheduled);
  if (verified_swap_) verified_swap_->propose(setup_->execution->empty_step(), scheduled);
  trace_.phase(StepPhase::kBuild);
  counters_.last_batch = composition_of(scheduled);
  trace_.batch(counters_.last_batch);
  std::int32_t num_rows = 0;  // rows of draft forks are not counted: their cost belongs to the drafts beside them
  for (const ScheduledSequence& item : scheduled) {
    setup_->kv->reserve(*item.sequence, item.sequence->num_computed + item.num_rows());
    num_rows += item.num_rows();
  }
  set_pins(plan.pins);  // after the plan got its blocks: it may have counted on evicting blocks that are pinned now
  fork_drafts(scheduled);
  setup_->rows.assign(scheduled);
  setup_->row_work.assign(setup_->rows.logit_rows(), scheduled);

  trace_.phase(StepPhase::kForward);
  const StepWork work{step_id, setup_->rows.runs(), setup_->row_work.draws(), setup_->row_work.scores(), ended_ids_};
  SideRun* const beside = verified_swap_ ? verified_swap_->side_run() : nullptr;
  setup_->execution->launch(
      work, [this] { trace_.phase(StepPhase::kSample); }, beside);
  if (setup_->execution->computes_behind()) send_previous_step();
  counters_.num_rows += static_cast<std::uint64_t>(setup_->execution->num_rows());
  count_rows(counters_.last_batch, counters_);
  counters_.num_graph_replays = carried_.num_graph_replays + setup_->execution->num_graph_replays();
  std::vector<TokenInfo> infos = setup_->row_work.infos(setup_->execution->collect());
  trace_.phase(StepPhase::kCommit);
  in_step_.clear();
  commit(scheduled, setup_->rows.logit_rows(), std::move(infos));
  ended_ids_.clear();  // model, attention and proposers have received them
  setup_->drafting->end_step(scheduled, num_rows, !verified_swap_ && setup_->execution->is_typical());
}

// Gives blocks to the further paths of draft trees while the step has blocks, rows and places left. The remaining paths
// are not run.
void Engine::fork_drafts(std::span<const ScheduledSequence> scheduled) {
  const auto num_runs = [&](std::int32_t rows) { return setup_->limits.batch_expansion ? rows : 1; };
  std::int32_t rows = setup_->limits.max_batched_tokens, runs = setup_->limits.max_batch_runs();
  for (const ScheduledSequence& item : scheduled) {
    rows -= item.num_rows();
    runs -= num_runs(item.num_rows());
  }
  std::vector<BlockId> from, to;
  for (const ScheduledSequence& item : scheduled) {
    std::vector<DraftFork>& forks = item.sequence->forks;
    for (std::size_t i = 0; i < forks.size(); ++i) {
      const auto needed = 1 + static_cast<std::int32_t>(forks[i].drafts.size());
      if (needed > rows || num_runs(needed) > runs || !setup_->kv->fork(*item.sequence, forks[i], from, to)) {
        forks.resize(i);
        break;
      }
      rows -= needed;
      runs -= num_runs(needed);
    }
  }
  copy_blocks(from, to);
}

void Engine::copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to) {
  setup_->execution->copy_blocks(from, to);
  if (verified_swap_) verified_swap_->copy_blocks(from, to);
}

void Engine::copy_partial_blocks(std::span<Sequence* const> admitted) {
  std::vector<BlockId> from, to;
  setup_->kv->copy_partial_blocks(admitted, from, to);
  copy_blocks(from, to);
}

// For a sequence with a draft tree: keeps only the rows of the path with the most accepted drafts. If that path is a
// fork, its drafts and blocks become the sequence's.
void Engine::take_best_path(Sequence& sequence, std::vector<LogitRow>& rows, std::vector<TokenInfo>& infos) {
  // Returns the indices of a path's rows: first the row of the last known token, which all paths share, then a row for
  // each draft of the path.
  const auto drawn = [&](std::int32_t path) {
    std::vector<std::size_t> at = {0};
    for (std::size_t i = 1; i < rows.size(); ++i) {
      if (rows[i].path == path) at.push_back(i);
    }
    return at;
  };
  const auto num_accepted = [&](std::int32_t path, const std::vector<std::int32_t>& drafts) {
    const std::vector<std::size_t> at = drawn(path);
    std::size_t count = 0;
    while (count < drafts.size() && infos[at[count]].id == drafts[count]) ++count;
    return count;
  };
  std::int32_t best = 0;
  std::size_t most = num_accepted(0, sequence.drafts);
  for (std::size_t i = 0; i < sequence.forks.size(); ++i) {
    const auto path = static_cast<std::int32_t>(i) + 1;
    const std::size_t count = num_accepted(path, sequence.forks[i].drafts);
    if (count <= most) continue;
    most = count;
    best = path;
  }
  std::vector<LogitRow> best_rows;
  std::vector<TokenInfo> best_infos;
  for (const std::size_t at : drawn(best)) {
    best_rows.push_back(rows[at]);
    best_infos.push_back(std::move(infos[at]));
  }
  rows = std::move(best_rows);
  infos = std::move(best_infos);
  if (best == 0) return;
  DraftFork& fork = sequence.forks[static_cast<std::size_t>(best) - 1];
  // The sequence's previous path is now a fork that lost, like the others.
  std::swap(sequence.drafts, fork.drafts);
  setup_->kv->adopt(sequence, fork);
}

void Engine::commit(const std::vector<ScheduledSequence>& scheduled, std::span<const LogitRow> rows,
                    std::vector<TokenInfo> infos) {
  outcomes_.clear();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < scheduled.size(); ++i) {
    if (i + 2 * kAhead < scheduled.size()) prefetch_to_commit(*scheduled[i + 2 * kAhead].sequence);
    if (i + kAhead < scheduled.size()) prefetch_around(*scheduled[i + kAhead].sequence);
    std::size_t end = begin;
    while (end < rows.size() && static_cast<std::size_t>(rows[end].seq) == i) ++end;
    Sequence& sequence = *scheduled[i].sequence;
    const std::span<const LogitRow> own = rows.subspan(begin, end - begin);
    const std::span<TokenInfo> own_infos = std::span(infos).subspan(begin, end - begin);
    begin = end;
    if (sequence.finish != FinishReason::kNone) continue;  // its text ended while the step ran
    if (sequence.forks.empty()) {
      commit_sequence(sequence, own, own_infos, scheduled[i].num_new_tokens);
      continue;
    }
    std::vector<LogitRow> path(own.begin(), own.end());
    std::vector<TokenInfo> path_infos(std::move_iterator(own_infos.begin()), std::move_iterator(own_infos.end()));
    take_best_path(sequence, path, path_infos);
    commit_sequence(sequence, path, path_infos, scheduled[i].num_new_tokens);
  }
  gaps_.committed(outcomes_);
  setup_->drafting->observe(outcomes_, ended_ids_, &setup_->execution->hidden());
  if (verified_swap_) verified_swap_->observe(outcomes_, ended_ids_, &setup_->execution->hidden());
}

// Commits the tokens of a sequence's rows. A draft is accepted if it equals the token of its row. With coupled
// verification that is the token that the target drew; with rejection sampling it is the draft, or the recovered token
// if the draft was rejected. The first token that differs ends the commit. After the last accepted draft comes the
// bonus token.
void Engine::commit_sequence(Sequence& sequence, std::span<const LogitRow> rows, std::span<TokenInfo> infos,
                             std::int32_t num_new_tokens) {
  sequence.num_computed += num_new_tokens;
  const std::vector<std::int32_t>& drafts = sequence.drafts;
  Delta& news = sequence.gathered;
  std::int32_t num_committed = 0, num_accepted = 0, last_row = -1;
  FinishReason finish = FinishReason::kNone;
  for (std::size_t i = 0; i < rows.size() && finish == FinishReason::kNone; ++i) {
    if (rows[i].target >= 0) {
      sequence.scores.push_back(std::move(infos[i]));
      continue;
    }
    const std::int32_t token = infos[i].id;
    if (token < 0) {
      finish = FinishReason::kError;
      news.error = "no token can be drawn: every logit is NaN, -infinity or banned; are the weights damaged?";
      break;
    }
    const auto draft = static_cast<std::size_t>(num_committed);
    sequence.append(token);
    ++num_committed;
    last_row = rows[i].row;
    finish = end_of(sequence, token);
    if (finish == FinishReason::kStop) news.stop_token = token;
    const bool is_accepted = draft < drafts.size() && drafts[draft] == token;
    infos[i].draft = is_accepted             ? DraftOutcome::kAccepted
                     : draft < drafts.size() ? DraftOutcome::kRecovered
                                             : DraftOutcome::kNone;
    news.tokens.push_back(std::move(infos[i]));
    if (sequence.choice_is_complete()) finish = FinishReason::kStop;
    // With drafts, the text is written now, because a stop string decides how many of the tokens are committed.
    // Otherwise write_texts() does it later.
    if (!drafts.empty()) finish = later(finish, sequence.write_text());
    if (!is_accepted) break;
    ++num_accepted;
    if (finish == FinishReason::kNone) ++sequence.num_computed;  // the draft's row computed the KV of this token
  }
  setup_->kv->drop_forks(sequence);
  counters_.num_generated += static_cast<std::uint64_t>(num_committed);
  if (sequence.drafted_by >= 0) {
    sequence.usage.draft_tokens += static_cast<std::int32_t>(drafts.size());
    sequence.usage.accepted_tokens += num_accepted;
    counters_.num_drafts += drafts.size();
    counters_.num_accepted += static_cast<std::uint64_t>(num_accepted);
  }
  setup_->drafting->verified(sequence, num_committed, num_accepted);
  if (num_committed > 0 && sequence.num_generated() == num_committed) {
    trace_.mark(sequence, "first token");
    if (sequence.owner->news == News::kAtTheEnd) news.first_token = std::chrono::steady_clock::now();
  }
  if (num_committed > 0) outcomes_.push_back({&sequence, num_committed, num_accepted, last_row});
  if (finish == FinishReason::kNone && !sequence.wants_tokens() && !sequence.wants_scores()) {
    finish = FinishReason::kLength;  // a request that only scores its prompt
  }
  sequence.clear_drafts();
  setup_->kv->publish(sequence);
  if (sequence.is_predicted) setup_->kv->trim(sequence);
  if (finish != FinishReason::kNone) {
    end(sequence, finish);
  } else if (num_committed > 0) {
    unwritten_.push_back(&sequence);
  }
}

// Writes the text of committed tokens, and sends it to readers who want each step. If a stop string ends a choice here,
// the next step may already contain the choice; that step then commits nothing for it.
void Engine::write_texts() {
  for (std::size_t i = 0; i < unwritten_.size(); ++i) {
    if (i + kAhead < unwritten_.size()) unwritten_[i + kAhead]->owner->channel->prefetch();
    Sequence* const sequence = unwritten_[i];
    if (sequence->finish != FinishReason::kNone) continue;
    const FinishReason finish = sequence->write_text();
    if (finish != FinishReason::kNone) {
      end(*sequence, finish);
    } else if (sequence->owner->news == News::kEachStep) {
      send(*sequence);
    }
  }
  unwritten_.clear();
}

void Engine::send(Sequence& sequence) {
  Delta& news = sequence.gathered;
  news.request = sequence.owner->id;
  news.choice = sequence.choice;
  if (!std::exchange(sequence.scores_sent, true)) {
    // The scores of the partial block stay here until the block is full and enters the prefix tree with them.
    news.prompt = sequence.finish == FinishReason::kNone ? sequence.scores : std::move(sequence.scores);
  }
  outbox_.add(sequence.owner->channel, std::move(news));
  news.clear();
  if (sequence.finish == FinishReason::kNone) news.tokens = outbox_.take_buffer();
  sequence.num_written = 0;
}

FinishReason Engine::end_of(const Sequence& sequence, std::int32_t token) const {
  const std::vector<std::int32_t>& ends = sequence.owner->end_tokens;
  // End tokens are banned before min_tokens, so an end token that was drawn ends the choice.
  if (std::binary_search(ends.begin(), ends.end(), token)) return FinishReason::kStop;
  return sequence.wants_tokens() ? FinishReason::kNone : FinishReason::kLength;
}

void Engine::end(Sequence& sequence, FinishReason reason) {
  if (sequence.finish != FinishReason::kNone) return;
  any_ended_ = stats_changed_ = true;
  setup_->kv->release(sequence);
  setup_->kv->pin(sequence, 0);
  Delta& news = sequence.gathered;
  reason = end_text(sequence, reason);
  sequence.finish = news.finish = reason;
  news.seed = sequence.owner->seed;
  sequence.usage.accepted_prediction_tokens = sequence.prediction.num_accepted();
  sequence.usage.rejected_prediction_tokens = sequence.prediction.num_rejected();
  counters_.num_accepted_prediction_tokens += static_cast<std::uint64_t>(sequence.prediction.num_accepted());
  counters_.num_rejected_prediction_tokens += static_cast<std::uint64_t>(sequence.prediction.num_rejected());
  news.usage = sequence.usage;
  trace_.ended(sequence);
  setup_->drafting->ended(sequence);
  send(sequence);
  requests_.ended(sequence);
}

// Writes the rest of the text. Returns the final reason to end: a stop string in this text replaces `reason`.
FinishReason Engine::end_text(Sequence& sequence, FinishReason reason) {
  if (reason == FinishReason::kError) {
    const std::string why = sequence.gathered.error;
    sequence.write_text();  // the text before the error
    sequence.gathered.error = why;
    return reason;
  }
  FinishReason found = sequence.write_text();
  if (found == FinishReason::kNone) {
    try {
      sequence.gathered.text += sequence.text.finish();
      if (sequence.text.stopped()) found = FinishReason::kStop;
    } catch (const Error& error) {
      found = FinishReason::kError;
      sequence.gathered.error = error.what();
    }
  }
  return found == FinishReason::kError || reason == FinishReason::kLength ? later(reason, found) : reason;
}

void Engine::send_outbox() {
  const Inbox::Progress progress = requests_.take_progress();
  inbox_.left_queue(progress);  // before the deltas are sent: a client that reads its end finds room in the queue
  outbox_.send();
  inbox_.ended(progress);  // after the deltas: when drain() returns, every end has been sent
}

void Engine::drop_ended() {
  if (!std::exchange(any_ended_, false)) return;  // skips the search: thousands of sequences may wait
  std::erase_if(unwritten_, [](const Sequence* sequence) { return sequence->finish != FinishReason::kNone; });
  const auto gone = [&](const std::shared_ptr<Sequence>& sequence) {
    if (sequence->finish == FinishReason::kNone) return false;
    ended_ids_.push_back(sequence->id);
    setup_->planner->ended(sequence->id);
    if (verified_swap_) verified_swap_->ended(sequence->id);
    return true;
  };
  live_.erase(std::remove_if(live_.begin(), live_.end(), gone), live_.end());
}

// Copying the statistics takes time, and in most steps nobody reads them. They are copied when a sequence came,
// started, was preempted or ended, every 50 ms while requests run, and when nothing runs any more.
void Engine::publish_stats() {
  constexpr auto kEvery = std::chrono::milliseconds(50);
  const auto now = std::chrono::steady_clock::now();
  const bool due = std::exchange(stats_changed_, false) || live_.empty() || now - published_ >= kEvery;
  if (!due && !trace_.is_on()) return;
  published_ = now;
  counters_.num_rejected_plans = carried_.num_rejected_plans + setup_->planner->num_rejected_plans();
  counters_.num_starved = carried_.num_starved + setup_->planner->num_starved();
  counters_.num_proposer_failures = carried_.num_proposer_failures + setup_->drafting->num_failures();
  counters_.speculation = setup_->drafting->stats();
  counters_.speculation.add(carried_.speculation);
  counters_.phases = trace_.times();
  counters_.num_proposer_sequences = setup_->drafting->num_sequences();
  counters_.num_running = static_cast<std::int32_t>(
      std::count_if(live_.begin(), live_.end(), [](const auto& sequence) { return sequence->running(); }));
  counters_.num_waiting = static_cast<std::int32_t>(live_.size()) - counters_.num_running;
  counters_.num_free_blocks = static_cast<std::int32_t>(setup_->kv->cache().num_free());
  counters_.num_cached_free_blocks = static_cast<std::int32_t>(setup_->kv->cache().num_cached_free());
  counters_.num_blocks = static_cast<std::int32_t>(setup_->kv->cache().num_blocks());
  counters_.num_evicted_blocks = carried_.num_evicted_blocks + setup_->kv->cache().num_evictions();
  EngineStats stats = counters_;
  const std::lock_guard lock(mutex_);
  std::swap(stats_, stats);
}

}  // namespace mortise
