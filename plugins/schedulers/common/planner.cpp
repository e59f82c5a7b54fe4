#include "schedulers/common/planner.hpp"

#include <algorithm>

namespace mortise::scheduling {
namespace {

int64_t blocks_for(int64_t tokens, int32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

}  // namespace

Planner::Planner(const mortise_schedule_view& view, const Limits& limits, std::span<const OrderEntry> order)
    : view_(view),
      seq_budget_(std::min(view.seq_budget, limits.max_num_seqs)),
      cuts_drafts_((view.flags & MORTISE_VIEW_WHOLE_DRAFTS) == 0),
      rows_left_(std::min(view.token_budget, limits.max_batched_tokens)),
      blocks_(view),
      new_tokens_(static_cast<std::size_t>(view.num_seqs), 0),
      drafts_(static_cast<std::size_t>(view.num_seqs), 0),
      is_preempted_(static_cast<std::size_t>(view.num_seqs), 0),
      drafts_wanted_(std::any_of(view.lookahead, view.lookahead + view.num_seqs, [](int32_t n) { return n > 0; })) {
  if (!cuts_drafts_) drafts_.assign(view.lookahead, view.lookahead + view.num_seqs);
  order_.reserve(order.size());
  keep_free_.reserve(order.size());
  for (const OrderEntry& entry : order) {
    order_.push_back(entry.index);
    keep_free_.push_back(entry.keep_free);
    num_running_ += running(entry.index) ? 1 : 0;
  }
}

// Returns the number of tokens with KV after a run of n tokens. A run to the last known token also writes the drafts
// granted so far.
int64_t Planner::end_of(int32_t i, int32_t n) const {
  return int64_t{run_begin(i)} + n + (n == remaining(i) ? drafts_[i] : 0);
}

// Returns the largest number of new tokens that the remaining rows and `free_blocks` have room for; 0: none. Where
// drafts cannot be cut, a run that would end without room for them stops one token short.
int32_t Planner::largest_run(int32_t i, int64_t free_blocks) const {
  const int64_t held = running(i) ? view_.blocks_held[i] : run_begin(i) / view_.block_size;  // full blocks only
  // The free blocks that a waiting sequence takes for its full cached blocks alone.
  const int64_t cached_blocks = running(i) ? 0 : cost(i, held * view_.block_size);
  if (cached_blocks > free_blocks) return 0;
  const int64_t slots = (held + free_blocks - cached_blocks) * view_.block_size - run_begin(i);
  const int64_t room = std::min(rows_left_, slots);
  if (rows(i, remaining(i)) <= room) return remaining(i);
  return static_cast<int32_t>(std::clamp<int64_t>(room, 0, remaining(i) - 1));
}

void Planner::take(int32_t i, int32_t n) {
  new_tokens_[i] = n;
  rows_left_ -= rows(i, n);
  blocks_.run(i, end_of(i, n));
  if (!running(i)) {
    ++num_running_;
    ++num_admitted_;
  }
  ++num_scheduled_;
}

// Grants drafts to sequence `i`, whose tokens are already planned: as many as the remaining rows and free blocks allow.
void Planner::grant_drafts(int32_t i) {
  if (!cuts_drafts_ || new_tokens_[i] == 0 || new_tokens_[i] != remaining(i)) return;
  const int64_t end = end_of(i, new_tokens_[i]);
  const int64_t before = cost(i, end);
  int64_t drafts = std::min<int64_t>(view_.lookahead[i], rows_left_);
  while (drafts > 0 && cost(i, end + drafts) - before > blocks_.num_free()) --drafts;
  drafts_[i] = static_cast<int32_t>(drafts);
  rows_left_ -= drafts;
  blocks_.take(cost(i, end + drafts) - before);
}

// Takes back all granted drafts, before a sequence is preempted. Returns false if there were none.
bool Planner::withdraw_drafts() {
  if (!cuts_drafts_) return false;
  bool any = false;
  for (const int32_t i : order_) {
    if (drafts_[i] == 0) continue;
    const int64_t end = end_of(i, new_tokens_[i]);
    blocks_.take(cost(i, end - drafts_[i]) - cost(i, end));
    rows_left_ += drafts_[i];
    drafts_[i] = 0;
    any = true;
  }
  return any;
}

// Preempts a running sequence, and removes it from the plan if the plan has it.
void Planner::preempt(int32_t i) {
  if (new_tokens_[i] > 0) {
    rows_left_ += rows(i, new_tokens_[i]);
    blocks_.take(-cost(i, end_of(i, new_tokens_[i])));
    new_tokens_[i] = 0;
    if (cuts_drafts_) drafts_[i] = 0;
    --num_scheduled_;
  }
  blocks_.preempt(i);
  preempted_.push_back(i);
  is_preempted_[i] = 1;
  --num_running_;
}

int32_t Planner::last_running() const {
  const auto found =
      std::find_if(order_.rbegin(), order_.rend(), [&](int32_t i) { return running(i) && !is_preempted_[i]; });
  return *found;  // REQUIRES: a sequence runs
}

// Schedules running sequence `i`. If blocks are lacking, preempts running sequences that come later in the order.
void Planner::serve(int32_t i) {
  if (is_preempted_[i] || remaining(i) < 1 || num_scheduled_ == seq_budget_) return;
  int32_t n = largest_run(i, blocks_.num_free());
  if (n < 1 && largest_run(i, view_.num_blocks) < 1) return;  // no rows left: more blocks would not help
  while (n < 1) {
    if (withdraw_drafts()) {
      n = largest_run(i, blocks_.num_free());
      continue;
    }
    const int32_t victim = last_running();
    // No later sequence is left: `i` keeps its blocks and waits.
    if (victim == i) return;
    // An admitted sequence may count on cached blocks of the victim, so nothing is preempted in this step.
    if (num_admitted_ > 0 && preempted_.empty()) return;
    preempt(victim);
    n = largest_run(i, blocks_.num_free());
  }
  take(i, n);
}

// Returns the blocks that `i` will need after this step: for the rest of its known tokens, and one more.
int64_t Planner::still_needed(int32_t i) const {
  const int64_t whole = cost(i, end_of(i, remaining(i)));
  const int64_t taken = new_tokens_[i] > 0 ? cost(i, end_of(i, new_tokens_[i])) : 0;
  return std::max<int64_t>(0, whole - taken) + 1;
}

// Returns whether `i` fits now, or after preempting running sequences of worse priority.
bool Planner::can_displace(int32_t i) const {
  int64_t reserve = 0, gain = 0;
  const bool has_budget = num_running_ < seq_budget_;
  bool may_get_budget = has_budget;
  for (const int32_t other : order_) {
    if (is_preempted_[other] || !(running(other) || new_tokens_[other] > 0)) continue;
    if (view_.priorities[other] <= view_.priorities[i]) {
      reserve += still_needed(other);
    } else if (running(other)) {
      gain += view_.blocks_freed_if_preempted[other];
      if (new_tokens_[other] > 0) gain += cost(other, end_of(other, new_tokens_[other]));
      may_get_budget = true;
    }
  }
  const int64_t end = end_of(i, remaining(i));
  if (has_budget && cost(i, end) <= blocks_.num_free() - reserve) return true;
  if (num_admitted_ > 0 && preempted_.empty()) return false;  // as in serve()
  return may_get_budget && blocks_for(end, view_.block_size) <= blocks_.num_free() - reserve + gain;
}

// Admits waiting sequences of better priority than a running one, and preempts for them if needed.
void Planner::admit_urgent() {
  for (const int32_t i : order_) {
    if (running(i) || remaining(i) < 1) continue;
    const auto displaceable = [&] {
      return num_running_ > num_admitted_ && view_.priorities[last_running()] > view_.priorities[i];
    };
    if (rows_left_ < 1 || !displaceable() || !can_displace(i)) return;
    const auto lacks_room = [&] {
      return num_running_ >= seq_budget_ || num_scheduled_ >= seq_budget_ ||
             cost(i, end_of(i, remaining(i))) > blocks_.num_free();
    };
    if (lacks_room()) withdraw_drafts();
    while (lacks_room() && displaceable()) preempt(last_running());
    const int32_t n = lacks_room() ? 0 : largest_run(i, blocks_.num_free());
    if (n < 1) return;
    take(i, n);
  }
}

void Planner::admit_waiting() {
  if (num_running_ - num_admitted_ == static_cast<int32_t>(order_.size())) return;  // no sequence waits
  int64_t reserve = 0;
  for (const int32_t i : order_) {
    if (running(i) || new_tokens_[i] > 0) reserve += still_needed(i);
  }
  for (std::size_t position = 0; position < order_.size(); ++position) {
    const int32_t i = order_[position];
    reserve += keep_free_[position];
    if (running(i) || new_tokens_[i] > 0 || remaining(i) < 1) continue;
    if (num_running_ >= seq_budget_ || num_scheduled_ >= seq_budget_ || rows_left_ < 1) return;
    // The only sequence of a plan needs no reserve: the host has checked that it fits the pool.
    const bool alone = num_scheduled_ == 0;
    if (!alone && cost(i, end_of(i, remaining(i))) > blocks_.num_free() - reserve) return;
    const int32_t n = largest_run(i, blocks_.num_free());
    if (n < 1) return;
    take(i, n);
    reserve += still_needed(i);
  }
}

void Planner::plan() {
  for (const int32_t i : order_) {
    if (running(i) && remaining(i) == 1) serve(i);
  }
  if (drafts_wanted_) {
    for (const int32_t i : order_) grant_drafts(i);
  }
  admit_urgent();
  for (const int32_t i : order_) {
    if (running(i) && remaining(i) > 1) serve(i);
  }
  // After a preemption the free blocks belong to the sequence that it was made for, so nothing is admitted.
  if (preempted_.empty()) admit_waiting();
  if (!drafts_wanted_) return;
  for (const int32_t i : order_) {
    if (drafts_[i] == 0) grant_drafts(i);
  }
}

void Planner::write(mortise_schedule_plan& out) const {
  out.num_scheduled = 0;
  for (const int32_t i : order_) {
    if (new_tokens_[i] == 0) continue;
    out.seqs[out.num_scheduled] = i;
    out.num_new_tokens[out.num_scheduled++] = new_tokens_[i];
  }
  std::copy(drafts_.begin(), drafts_.end(), out.max_drafts);
  std::copy(preempted_.begin(), preempted_.end(), out.preempted);
  out.num_preempted = static_cast<int32_t>(preempted_.size());
  out.num_pins = 0;
}

}  // namespace mortise::scheduling
