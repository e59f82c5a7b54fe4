#include "speculation/adaptive_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace mortise {
namespace {

constexpr std::int32_t kStepsBetween = 64;    // steps between two probes of the same kind of a whole batch
constexpr std::int32_t kStepsBetweenNew = 4;  // the same while the cost of the probed size is unknown
constexpr double kWorthAProbe = 0.3;          // longer drafts are tried only if they cost at most this share of a step
constexpr double kPlausible = 0.5;  // a step without drafts is tried only if it may reach this share of the best rate
// The largest budget, in steps. Without it, a probe that never comes would save up for a burst of probes.
constexpr double kLargestBudget = 50;
// The largest debt, in steps: after an accepted probe, drafts may continue before the budget covers them.
constexpr double kLargestDebt = 5;
constexpr double kUsualLength = 128;  // generated tokens of a sequence, assumed until some have ended
constexpr double kMaxEnded = 64;      // the mean length follows about this many ended sequences
// The assumed cost of a token to catch up with, as a share of a draft's cost, until it is measured.
constexpr double kAtOnce = 0.125;
// The gain needed to change between drafting and not, because changing back and forth costs more.
constexpr double kHysteresis = 1.03;
// Choosing may take this share of the time. Weighing one draft takes kSecondsPerItem (measured: 0.06 to 0.12 us).
constexpr double kChoiceShare = 0.0075, kSecondsPerItem = 8e-8;
// Numbers of drafts that differ by less than 1/kFineness of their size are one choice.
constexpr std::size_t kFineness = 8;

}  // namespace

void AdaptiveLengths::choose(std::span<const Candidate> candidates) {
  if (candidates.empty()) return;
  ++steps_since_without_;
  ++steps_since_longer_;
  probe_ = Probe::kNone;
  for (auto& [bits, kind] : kinds_) kind.acceptance.end_step();
  if (keeps_last_choice(candidates)) {
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

// Returns whether this step keeps the last choice: until steps_to_choice_ steps have passed, and only while the batch
// stays in the same size bucket.
bool AdaptiveLengths::keeps_last_choice(std::span<const Candidate> candidates) {
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
    // Until the cost is measured, it is assumed so low that a probe can pay for it.
    const double draft_s = kind.all.known() ? kind.all.at(1) / std::max(kind.num_candidates, 1) : 0;
    kind.catch_up_s = kind.costs.catch_up_s().value_or(kAtOnce * std::min(draft_s, kProbeShare / 2 * last_step_s_));
  }
}

// Counts what measured() needs to know about the step.
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
  num_ended_ = std::min(num_ended_ + 1, kMaxEnded);
  usual_length_ += (num_generated - usual_length_) / num_ended_;
}

double AdaptiveLengths::tokens_left(const Candidate& candidate) const {
  const double usual = num_ended_ > 0 ? usual_length_ : kUsualLength;
  // A sequence that is already longer than usual is assumed to be halfway.
  const double left = std::max<double>(usual - candidate.num_generated, candidate.num_generated);
  return std::max(1.0, std::min<double>(left, candidate.most_left));
}

// Lists every draft that could be requested, the most promising first. The drafts of one sequence stay in order.
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
    // The cost of catching up is shared by all steps that the sequence has left.
    const double steps = std::max(1.0, tokens_left(candidates[i]) / tokens);
    (items_.end() - candidates[i].limit)->catch_up_s = kind.catch_up_s * state.num_unseen / steps;
  }
  std::ranges::stable_sort(items_, std::greater<>(), &Item::chance);
}

// Returns the best number of items among those with a depth of at most `most`.
AdaptiveLengths::LengthChoice AdaptiveLengths::best_choice(std::int32_t most) {
  ask_nobody();
  const double num_seqs = num_candidates_;
  LengthChoice best{num_seqs, seconds_of(num_seqs, 0), most, 0};
  double tokens = num_seqs, rows = num_seqs, catch_up = 0;
  std::size_t taken = 0, next = 1;
  const auto consider = [&] {
    const LengthChoice choice{tokens, seconds_of(rows, most) + catch_up, most, taken};
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
  LengthChoice best;
  for (std::int32_t most = 0; most <= deepest; ++most) {
    const LengthChoice choice = best_choice(most);
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

AdaptiveLengths::LengthChoice AdaptiveLengths::expected(std::span<const Candidate> candidates) {
  ask_nobody();
  LengthChoice result;
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

void AdaptiveLengths::probe(std::span<const Candidate> candidates, const LengthChoice& best) {
  if (best.rate() <= 0 || probe_zeros(candidates, best)) return;
  if (best.most > 0 && steps_since_without_ >= kStepsBetween && probe_all(candidates, best, Probe::kWithout)) return;
  std::int32_t rows = num_candidates_;
  for (const Candidate& candidate : candidates) rows += candidate.limit;
  const std::int32_t between = step_costs_.knows(num_candidates_, rows) ? kStepsBetween : kStepsBetweenNew;
  if (steps_since_longer_ >= between) probe_all(candidates, best, Probe::kLonger);
}

// Requests one draft for each sequence without drafts, if the budget covers all of them together: a step's fixed cost
// of drafting is then paid once.
bool AdaptiveLengths::probe_zeros(std::span<const Candidate> candidates, const LengthChoice& best) {
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
    const LengthChoice with = expected(candidates);
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
  // Decides whether the budget will ever cover the probe, or the cost of catching up grows faster than the budget.
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

// Probes a step of the whole batch without drafts, or with all drafts that it can use.
bool AdaptiveLengths::probe_all(std::span<const Candidate> candidates, const LengthChoice& best, Probe probe) {
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
  const LengthChoice other = expected(candidates);
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
  // A probe may not be measured because the device prepared itself for its size in that step. It is then repeated.
  if (probe_ == Probe::kWithout) steps_since_without_ = 0;
  if (probe_ == Probe::kLonger) steps_since_longer_ = 0;
  if (times.num_drafting == 0) return;
  // The time is that of all kinds together. It is divided by the number of sequences that were asked for drafts.
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
