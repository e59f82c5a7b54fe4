#include "speculation/adaptive_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace mortise {
namespace {

constexpr std::int32_t kNearSizes = 2;      // buckets around a tried one that need no trial of their own
constexpr std::int32_t kStepsBetween = 64;  // probes of the same kind of a whole batch
constexpr double kWorthAProbe = 0.3;        // of a step: longer drafts that lose more will not turn out to be the best
constexpr double kLargestBudget = 50;       // steps: a probe that waited for ever would come all at once
constexpr double kLargestDebt = 5;          // steps: drafts after one that stood may come before there is a budget
constexpr double kHorizon = 32;             // steps over which drafting again pays for what was missed meanwhile
constexpr double kHysteresis = 1.01;        // near the point where drafting begins to pay, back and forth costs more
constexpr std::int32_t kSeqsPerDecision = 8;  // large batches are decided anew every so many sequences' steps

}  // namespace

void AdaptiveLengths::choose(std::span<const Candidate> candidates) {
  ++steps_since_baseline_;
  ++steps_since_deep_;
  const bool same = candidates.size() == num_candidates_ && --steps_until_choice_ > 0;
  for (const Candidate& candidate : candidates) candidate.state->length = 0;
  if (!try_new_shape(candidates)) {
    if (!same) find_best(candidates);
    for (const Candidate& candidate : candidates) {
      candidate.state->length = std::min(candidate.state->best, candidate.limit);
    }
    probe(candidates, expected(candidates));
  }
  num_unseen_ = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.state->length > 0) num_unseen_ += candidate.state->num_unseen;
  }
}

// Steps with all drafts first, then as many without.
bool AdaptiveLengths::try_new_shape(std::span<const Candidate> candidates) {
  const std::int32_t size = size_bucket(static_cast<std::int32_t>(candidates.size()));
  const auto done = [](const auto& trial) { return trial.second >= 2 * kTrials; };
  const auto begin = trials_.lower_bound(size - kNearSizes), end = trials_.upper_bound(size + kNearSizes);
  if (std::any_of(begin, end, done)) return false;
  if (std::ranges::none_of(candidates, [](const Candidate& c) { return c.limit > 0; })) return false;
  if (++trials_[size] > kTrials) return true;
  for (const Candidate& candidate : candidates) candidate.state->length = candidate.limit;
  return true;
}

double AdaptiveLengths::prior(const DraftState& state) const {
  const auto shared = shared_.find(state.kind);
  return shared == shared_.end() ? SharedAcceptance().rate() : shared->second.rate();
}

double AdaptiveLengths::seconds_of(std::int32_t num_seqs, double num_rows, std::int32_t num_asked,
                                   std::int32_t most) const {
  const double step = costs_.steps.at(num_seqs, static_cast<std::int32_t>(std::lround(num_rows))).value_or(1);
  return num_asked == 0 ? step : step + costs_.drafts.at(num_asked, most).value_or(0);
}

// Every draft that could be asked for, the most promising first; a sequence's own follow each other.
void AdaptiveLengths::collect_items(std::span<const Candidate> candidates) {
  items_.clear();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const DraftState& state = *candidates[i].state;
    const double rate = state.acceptance.rate(prior(state)), rows = state.acceptance.yield();
    double gain = rows;
    for (std::int32_t depth = 1; depth <= candidates[i].limit; ++depth) {
      gain *= rate;
      items_.push_back({gain, rows, costs_.catch_up_s * state.num_unseen, static_cast<std::int32_t>(i), depth});
    }
  }
  std::ranges::stable_sort(items_, std::greater<>(), &Item::gain);
}

// The best number of items of those whose depth is at most `most`.
AdaptiveLengths::Choice AdaptiveLengths::best_choice(std::int32_t num_seqs, std::int32_t most) {
  Choice best{static_cast<double>(num_seqs), seconds_of(num_seqs, num_seqs, 0, 0), most, 0};
  double tokens = num_seqs, rows = num_seqs, catch_up = 0;
  std::int32_t asked = 0;
  std::size_t taken = 0;
  for (const Item& item : items_) {
    if (item.depth > most) continue;
    tokens += item.gain;
    rows += item.rows;
    if (item.depth == 1) {
      ++asked;
      catch_up += item.catch_up_s;
    }
    ++taken;
    const Choice choice{tokens, seconds_of(num_seqs, rows, asked, most) + catch_up / kHorizon, most, taken};
    if (choice.rate() > best.rate()) best = choice;
  }
  return best;
}

void AdaptiveLengths::find_best(std::span<const Candidate> candidates) {
  num_candidates_ = candidates.size();
  steps_until_choice_ = static_cast<std::int32_t>(candidates.size()) / kSeqsPerDecision;
  collect_items(candidates);
  std::int32_t deepest = 0;
  const bool drafted = std::ranges::any_of(candidates, [](const Candidate& c) { return c.state->best > 0; });
  for (const Candidate& candidate : candidates) {
    deepest = std::max(deepest, candidate.limit);
    candidate.state->best = 0;
  }
  Choice best;
  for (std::int32_t most = 0; most <= deepest; ++most) {
    const Choice choice = best_choice(static_cast<std::int32_t>(candidates.size()), most);
    const bool changes_sides = (choice.num_items > 0) != drafted && (best.num_items > 0) == drafted;
    if (choice.rate() > best.rate() * (changes_sides ? kHysteresis : 1)) best = choice;
  }
  std::size_t taken = 0;
  for (const Item& item : items_) {
    if (item.depth > best.most) continue;
    if (taken++ == best.num_items) break;
    candidates[static_cast<std::size_t>(item.candidate)].state->best = item.depth;
  }
}

AdaptiveLengths::Choice AdaptiveLengths::expected(std::span<const Candidate> candidates) const {
  Choice result;
  double rows = 0;
  std::int32_t asked = 0;
  for (const Candidate& candidate : candidates) {
    const DraftState& state = *candidate.state;
    const double rate = state.acceptance.rate(prior(state)), yield = state.acceptance.yield();
    double gain = yield;
    result.tokens += 1;
    for (std::int32_t depth = 1; depth <= state.length; ++depth) result.tokens += gain *= rate;
    rows += 1 + yield * state.length;
    asked += state.length > 0 ? 1 : 0;
    result.most = std::max(result.most, state.length);
  }
  result.seconds = seconds_of(static_cast<std::int32_t>(candidates.size()), rows, asked, result.most);
  return result;
}

void AdaptiveLengths::probe(std::span<const Candidate> candidates, const Choice& best) {
  if (best.rate() <= 0 || probe_zeros(candidates, best)) return;
  if (best.most > 0 && steps_since_baseline_ >= kStepsBetween && probe_all(candidates, best, /*with_drafts=*/false)) {
    steps_since_baseline_ = 0;
  } else if (steps_since_deep_ >= kStepsBetween && probe_all(candidates, best, /*with_drafts=*/true)) {
    steps_since_deep_ = 0;
  }
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
      catch_up += costs_.catch_up_s * state.num_unseen;
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
  if (for_all <= kLargestBudget / 2 * last_step_s_) return false;  // it will be there
  next_probed_ = (next_probed_ + 1) % candidates.size();
  const double for_one = probe_those([&](std::size_t i) { return i == next_probed_; });
  if (!probed.empty() && for_one <= budget_s_) return pay(for_one);
  give_up();
  return false;
}

// The whole batch without drafts, or with all it can use.
bool AdaptiveLengths::probe_all(std::span<const Candidate> candidates, const Choice& best, bool with_drafts) {
  bool differs = false;
  std::vector<std::int32_t> before;
  double catch_up = 0;
  for (const Candidate& candidate : candidates) {
    DraftState& state = *candidate.state;
    before.push_back(state.length);
    if (with_drafts && state.length == 0) catch_up += costs_.catch_up_s * state.num_unseen;
    const std::int32_t length = with_drafts ? candidate.limit : 0;
    differs = differs || length != state.length;
    state.length = length;
  }
  const Choice other = expected(candidates);
  const double loss = std::max(0.0, other.seconds + catch_up - other.tokens / best.rate());
  if (differs && loss <= budget_s_ && (!with_drafts || loss <= kWorthAProbe * best.seconds)) {
    budget_s_ -= loss;
    return true;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].state->length = before[i];
  return false;
}

void AdaptiveLengths::verified(DraftState& state, std::int32_t num_asked, std::int32_t num_drafts,
                               std::int32_t num_accepted) {
  if (num_asked == 0) {
    ++state.num_unseen;
    return;
  }
  state.num_unseen = 0;
  state.probe_stood = num_accepted > 0;
  state.acceptance.add(num_asked, num_drafts, num_accepted);
  shared_[state.kind].add(num_drafts, num_accepted);
}

void AdaptiveLengths::measured(const StepTimes& times) {
  if (times.num_seqs == 0) return;
  last_step_s_ = times.draft_s + times.rest_s;
  budget_s_ = std::min(budget_s_ + kProbeShare * last_step_s_, kLargestBudget * last_step_s_);
  costs_.steps.add(times.num_seqs, times.num_rows, times.rest_s);
  if (times.num_asked == 0) return;
  if (num_unseen_ == 0) {
    costs_.drafts.add(times.num_asked, times.most_asked, times.draft_s);
  } else if (const auto usual = costs_.drafts.at(times.num_asked, times.most_asked)) {
    const double each = std::max(0.0, times.draft_s - *usual) / num_unseen_;
    costs_.catch_up_s += (each - costs_.catch_up_s) / (costs_.catch_up_s == 0 ? 1 : 8);
  }
}

}  // namespace mortise
