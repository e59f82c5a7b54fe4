#include "speculation/adaptive_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace mortise {
namespace {

constexpr std::int32_t kStepsBetween = 64;    // probes of the same kind of a whole batch
constexpr std::int32_t kStepsBetweenNew = 4;  // of a size that is not known yet
constexpr double kWorthAProbe = 0.3;   // of a step: longer drafts that lose more will not turn out to be the best
constexpr double kPlausible = 0.5;     // of the best rate: a step without drafts is not taken for twice as fast
constexpr double kLargestBudget = 50;  // steps: a probe that waited for ever would come all at once
constexpr double kLargestDebt = 5;     // steps: drafts after one that stood may come before there is a budget
constexpr double kUsualLength = 128;   // generated tokens of a sequence, until some have ended
constexpr double kMostEnded = 64;      // sequences that tell how long the others get
constexpr double kAtOnce = 0.125;      // of a draft: what a token to catch up with costs, until that was measured
constexpr double kHysteresis = 1.03;   // near the point where drafting begins to pay, back and forth costs more
// Of the time, at most, that goes into choosing; and what a draft that is weighed takes (0.06 to 0.12 us where
// measured).
constexpr double kChoiceShare = 0.0075, kSecondsPerItem = 8e-8;
constexpr std::size_t kFineness = 8;  // of many drafts, numbers that differ by less than this part are one choice

}  // namespace

void AdaptiveLengths::choose(std::span<const Candidate> candidates) {
  if (candidates.empty()) return;
  ++steps_since_without_;
  ++steps_since_longer_;
  probe_ = Probe::kNone;
  for (auto& [bits, kind] : kinds_) kind.acceptance.end_step();
  if (may_wait(candidates)) {
    for (const Candidate& candidate : candidates) {
      DraftState& state = *candidate.state;
      if (state.best < 0) state.best = kind_of(state).typical;
      state.length = std::min(state.best, candidate.limit);
    }
  } else {
    begin_choice(candidates);
    find_best(candidates);
    for (const Candidate& candidate : candidates) {
      candidate.state->length = std::min(candidate.state->best, candidate.limit);
    }
    probe(candidates, expected(candidates));
    const double cost_s = static_cast<double>(items_.size()) * kSecondsPerItem;
    steps_to_choice_ = last_step_s_ > 0 ? static_cast<std::int32_t>(cost_s / (kChoiceShare * last_step_s_)) : 0;
  }
  end_choice(candidates);
}

// The last choice stands for a while, if the batch is about as large as then.
bool AdaptiveLengths::may_wait(std::span<const Candidate> candidates) {
  if (--steps_to_choice_ < 0) return false;
  return size_bucket(static_cast<std::int32_t>(candidates.size())) == size_bucket(num_candidates_);
}

void AdaptiveLengths::begin_choice(std::span<const Candidate> candidates) {
  num_candidates_ = static_cast<std::int32_t>(candidates.size());
  steps_ = step_costs_.curve(num_candidates_);
  for (auto& [bits, kind] : kinds_) kind.num_candidates = 0;
  for (const Candidate& candidate : candidates) {
    candidate.state->length = 0;
    ++kind_of(*candidate.state).num_candidates;
  }
  for (auto& [bits, kind] : kinds_) {
    kind.one = kind.costs.curve(1);
    kind.all = kind.costs.curve(std::max(kind.num_candidates, 1));
    // Until it was measured: never so much that no probe could pay for it.
    const double draft_s = kind.all.known() ? kind.all.at(1) / std::max(kind.num_candidates, 1) : 0;
    kind.catch_up_s = kind.costs.catch_up_s().value_or(kAtOnce * std::min(draft_s, kProbeShare / 2 * last_step_s_));
  }
}

// What `measured` needs to know of the step.
void AdaptiveLengths::end_choice(std::span<const Candidate> candidates) {
  ask_nobody();
  for (auto& [bits, kind] : kinds_) kind.num_unseen = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.state->length == 0) continue;
    Kind& kind = kind_of(*candidate.state);
    ++kind.num_drafting;
    kind.num_unseen += candidate.state->num_unseen;
  }
}

void AdaptiveLengths::ask_nobody() {
  for (auto& [bits, kind] : kinds_) kind.num_drafting = 0;
}

double AdaptiveLengths::seconds_of(double num_rows, std::int32_t most) const {
  double seconds = steps_.at(num_rows);
  for (const auto& [bits, kind] : kinds_) {
    if (kind.num_drafting == 0 || !kind.all.known()) continue;
    const double share = static_cast<double>(kind.num_drafting - 1) / std::max(kind.num_candidates - 1, 1);
    seconds += (1 - share) * kind.one.at(most) + share * kind.all.at(most);
  }
  return seconds;
}

void AdaptiveLengths::ended(std::int32_t num_generated) {
  num_ended_ = std::min(num_ended_ + 1, kMostEnded);
  usual_length_ += (num_generated - usual_length_) / num_ended_;
}

double AdaptiveLengths::tokens_left(const Candidate& candidate) const {
  const double usual = num_ended_ > 0 ? usual_length_ : kUsualLength;
  // One that is longer than usual is taken to be half through.
  const double left = std::max<double>(usual - candidate.num_generated, candidate.num_generated);
  return std::max(1.0, std::min<double>(left, candidate.most_left));
}

// Every draft that could be asked for, the most promising first; a sequence's own follow each other.
void AdaptiveLengths::collect_items(std::span<const Candidate> candidates) {
  items_.clear();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const DraftState& state = *candidates[i].state;
    Kind& kind = kind_of(state);
    const double rows = state.acceptance.yield(kind.acceptance);
    double chance = 1, tokens = 1;
    for (std::int32_t depth = 1; depth <= candidates[i].limit; ++depth) {
      chance *= state.acceptance.rate(depth - 1, kind.acceptance);
      tokens += rows * chance;
      items_.push_back({chance, rows, 0, &kind, static_cast<std::int32_t>(i), depth});
    }
    if (candidates[i].limit == 0) continue;
    // What it has to catch up with is paid for by all the steps that it has left.
    const double steps = std::max(1.0, tokens_left(candidates[i]) / tokens);
    (items_.end() - candidates[i].limit)->catch_up_s = kind.catch_up_s * state.num_unseen / steps;
  }
  std::ranges::stable_sort(items_, std::greater<>(), &Item::chance);
}

// The best number of items of those whose depth is at most `most`.
AdaptiveLengths::Choice AdaptiveLengths::best_choice(std::int32_t most) {
  ask_nobody();
  const double num_seqs = num_candidates_;
  Choice best{num_seqs, seconds_of(num_seqs, 0), most, 0};
  double tokens = num_seqs, rows = num_seqs, catch_up = 0;
  std::size_t taken = 0, next = 1;
  const auto consider = [&] {
    const Choice choice{tokens, seconds_of(rows, most) + catch_up, most, taken};
    if (choice.rate() > best.rate()) best = choice;
    next = taken + 1 + taken / kFineness;
  };
  for (const Item& item : items_) {
    if (item.depth > most) continue;
    ++taken;
    tokens += item.chance * item.rows;
    rows += item.rows;
    if (item.depth == 1) {
      ++item.kind->num_drafting;
      catch_up += item.catch_up_s;
    }
    if (taken == next) consider();
  }
  consider();
  return best;
}

void AdaptiveLengths::find_best(std::span<const Candidate> candidates) {
  collect_items(candidates);
  std::int32_t deepest = 0;
  const bool drafted = std::ranges::any_of(candidates, [](const Candidate& c) { return c.state->best > 0; });
  for (const Candidate& candidate : candidates) {
    deepest = std::max(deepest, candidate.limit);
    candidate.state->best = 0;
  }
  Choice best;
  for (std::int32_t most = 0; most <= deepest; ++most) {
    const Choice choice = best_choice(most);
    const bool changes_sides = (choice.num_items > 0) != drafted && (best.num_items > 0) == drafted;
    if (choice.rate() > best.rate() * (changes_sides ? kHysteresis : 1)) best = choice;
  }
  std::size_t taken = 0;
  for (const Item& item : items_) {
    if (item.depth > best.most) continue;
    if (taken++ == best.num_items) break;
    candidates[static_cast<std::size_t>(item.candidate)].state->best = item.depth;
  }
  for (const Candidate& candidate : candidates) kind_of(*candidate.state).typical = candidate.state->best;
}

AdaptiveLengths::Choice AdaptiveLengths::expected(std::span<const Candidate> candidates) {
  ask_nobody();
  Choice result;
  double rows = 0;
  for (const Candidate& candidate : candidates) {
    const DraftState& state = *candidate.state;
    Kind& kind = kind_of(state);
    const double yield = state.acceptance.yield(kind.acceptance);
    double gain = yield;
    result.tokens += 1;
    for (std::int32_t depth = 1; depth <= state.length; ++depth) {
      result.tokens += gain *= state.acceptance.rate(depth - 1, kind.acceptance);
    }
    rows += 1 + yield * state.length;
    kind.num_drafting += state.length > 0 ? 1 : 0;
    result.most = std::max(result.most, state.length);
  }
  result.seconds = seconds_of(rows, result.most);
  return result;
}

void AdaptiveLengths::probe(std::span<const Candidate> candidates, const Choice& best) {
  if (best.rate() <= 0 || probe_zeros(candidates, best)) return;
  if (best.most > 0 && steps_since_without_ >= kStepsBetween && probe_all(candidates, best, Probe::kWithout)) return;
  std::int32_t rows = num_candidates_;
  for (const Candidate& candidate : candidates) rows += candidate.limit;
  const std::int32_t between = step_costs_.knows(num_candidates_, rows) ? kStepsBetween : kStepsBetweenNew;
  if (steps_since_longer_ >= between) probe_all(candidates, best, Probe::kLonger);
}

// One draft for each sequence that gets none, when the budget has it for all of them together: what drafting costs
// costs it once.
bool AdaptiveLengths::probe_zeros(std::span<const Candidate> candidates, const Choice& best) {
  std::vector<DraftState*> probed;
  double catch_up = 0;
  const auto probe_those = [&](const auto& wanted) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      DraftState& state = *candidates[i].state;
      if (state.length > 0 || candidates[i].limit == 0 || !wanted(i)) continue;
      probed.push_back(&state);
      state.length = 1;
      catch_up += kind_of(state).catch_up_s * state.num_unseen;
    }
    const Choice with = expected(candidates);
    return std::max(0.0, with.seconds + catch_up - with.tokens / best.rate());
  };
  const auto give_up = [&] {
    for (DraftState* state : probed) state->length = 0;
    probed.clear();
    catch_up = 0;
  };
  const auto pay = [&](double seconds) {
    budget_s_ -= seconds;
    return true;
  };
  const double for_all = probe_those([](std::size_t) { return true; });
  if (probed.empty()) return false;
  if (for_all <= budget_s_) return pay(for_all);
  give_up();
  if (budget_s_ >= -kLargestDebt * last_step_s_) {
    const double for_those_that_stood = probe_those([&](std::size_t i) { return candidates[i].state->probe_stood; });
    if (!probed.empty()) return pay(for_those_that_stood);
  }
  // Will the budget be there, or does what proposers have to catch up with grow faster?
  double grows = 0;
  for (const auto& [bits, kind] : kinds_) grows += kind.catch_up_s * kind.num_candidates;
  const bool grows_faster = grows > kProbeShare * last_step_s_;
  if (!grows_faster && for_all <= kLargestBudget / 2 * last_step_s_) return false;
  next_probed_ = (next_probed_ + 1) % candidates.size();
  const double for_one = probe_those([&](std::size_t i) { return i == next_probed_; });
  if (!probed.empty() && for_one <= budget_s_) return pay(for_one);
  give_up();
  return false;
}

// The whole batch without drafts, or with all it can use.
bool AdaptiveLengths::probe_all(std::span<const Candidate> candidates, const Choice& best, Probe probe) {
  const bool with_drafts = probe == Probe::kLonger;
  bool differs = false;
  std::vector<std::int32_t> before;
  double catch_up = 0;
  for (const Candidate& candidate : candidates) {
    DraftState& state = *candidate.state;
    before.push_back(state.length);
    if (with_drafts && state.length == 0) catch_up += kind_of(state).catch_up_s * state.num_unseen;
    const std::int32_t length = with_drafts ? candidate.limit : 0;
    differs = differs || length != state.length;
    state.length = length;
  }
  const Choice other = expected(candidates);
  const double loss = std::max(0.0, other.seconds + catch_up - other.tokens / best.rate());
  const bool may_turn_out_best =
      with_drafts ? loss <= kWorthAProbe * best.seconds : other.rate() >= kPlausible * best.rate();
  if (differs && loss <= budget_s_ && may_turn_out_best) {
    budget_s_ -= loss;
    probe_ = probe;
    return true;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].state->length = before[i];
  return false;
}

void AdaptiveLengths::verified(DraftState& state, std::int32_t max_drafts, std::int32_t num_drafts,
                               std::int32_t num_accepted) {
  if (max_drafts == 0) {
    ++state.num_unseen;
    return;
  }
  state.num_unseen = 0;
  state.probe_stood = num_accepted > 0;
  kind_of(state).acceptance.add(state.acceptance, max_drafts, num_drafts, num_accepted);
  state.acceptance.add(max_drafts, num_drafts, num_accepted);
}

void AdaptiveLengths::measured(const StepTimes& times) {
  if (times.num_seqs == 0) return;
  last_step_s_ = times.draft_s + times.rest_s;
  budget_s_ = std::min(budget_s_ + kProbeShare * last_step_s_, kLargestBudget * last_step_s_);
  step_costs_.add(times.num_seqs, times.num_rows, times.rest_s);
  // A probe that was not measured, since the device prepared itself for its size, comes again.
  if (probe_ == Probe::kWithout) steps_since_without_ = 0;
  if (probe_ == Probe::kLonger) steps_since_longer_ = 0;
  if (times.num_drafting == 0) return;
  // The time is that of all kinds; those asked for more sequences are taken to have had more of it.
  std::int32_t all_asked = 0;
  for (const auto& [bits, kind] : kinds_) all_asked += kind.num_drafting;
  for (auto& [bits, kind] : kinds_) {
    if (kind.num_drafting == 0) continue;
    const double share = static_cast<double>(kind.num_drafting) / all_asked;
    const auto num_drafting = static_cast<std::int32_t>(std::lround(share * times.num_drafting));
    kind.costs.add(std::max(num_drafting, 1), times.max_drafts, kind.num_unseen, share * times.draft_s);
  }
}

}  // namespace mortise
