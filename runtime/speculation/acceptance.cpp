#include "speculation/acceptance.hpp"

#include <algorithm>

namespace mortise {
namespace {

constexpr double kFade = 0.95;                // per verification: the estimate follows the last 20 or so
constexpr double kSharedFade = 1 - 1.0 / 64;  // per step
constexpr double kFirstRate = 0.7;            // typical of published draft models
constexpr double kFirstWeight = 2;

std::size_t index_of(std::int32_t position) {
  return std::min(static_cast<std::size_t>(position), OutcomeCounts::kPositions - 1);
}

}  // namespace

void OutcomeCounts::add(std::int32_t max_drafts, std::int32_t num_drafts, std::int32_t num_accepted) {
  asked += max_drafts;
  made += num_drafts;
  for (std::int32_t i = 0; i < std::min(num_accepted + 1, num_drafts); ++i) {
    stood[index_of(i)] += i < num_accepted ? 1 : 0;
    decided[index_of(i)] += 1;
  }
}

void OutcomeCounts::follow(const OutcomeCounts& later, double keep) {
  if (later.asked == 0) return;
  asked = asked * keep + later.asked;
  made = made * keep + later.made;
  for (std::size_t at = 0; at < kPositions; ++at) {
    if (later.decided[at] == 0) continue;
    stood[at] = stood[at] * keep + later.stood[at];
    decided[at] = decided[at] * keep + later.decided[at];
  }
}

SharedAcceptance::SharedAcceptance() {
  rates_.fill(kFirstRate);
}

double SharedAcceptance::rate(std::int32_t position) const {
  return rates_[index_of(position)];
}

void SharedAcceptance::add(const Acceptance& sequence, std::int32_t max_drafts, std::int32_t num_drafts,
                           std::int32_t num_accepted) {
  for (std::int32_t i = 0; i < std::min(num_accepted + 1, num_drafts); ++i) {
    const double prior = rate(i), outcome = i < num_accepted ? 1 : 0;
    for (std::size_t w = 0; w < kWeights.size(); ++w) {
      const double off = outcome - sequence.rate(i, prior, kWeights[w]);
      errors_[w] += off * off;
    }
  }
  step_.add(max_drafts, num_drafts, num_accepted);
}

void SharedAcceptance::end_step() {
  if (step_.asked == 0) return;
  counts_.follow(step_, kSharedFade);
  step_ = {};
  double rate = kFirstRate;
  // with few decisions here, the rate is near that of the previous position
  for (std::size_t at = 0; at < rates_.size(); ++at) {
    rate = (counts_.stood[at] + kFirstWeight * rate) / (counts_.decided[at] + kFirstWeight);
    rates_[at] = rate;
  }
  for (double& error : errors_) error *= kSharedFade;
  best_ = static_cast<std::size_t>(std::ranges::min_element(errors_) - errors_.begin());
}

double SharedAcceptance::yield() const {
  return (counts_.made + 1) / (counts_.asked + 1);
}

void Acceptance::add(std::int32_t max_drafts, std::int32_t num_drafts, std::int32_t num_accepted) {
  OutcomeCounts later;
  later.add(max_drafts, num_drafts, num_accepted);
  counts_.follow(later, kFade);
}

double Acceptance::rate(std::int32_t position, double prior, double weight) const {
  const std::size_t at = index_of(position);
  return (counts_.stood[at] + weight * prior) / (counts_.decided[at] + weight);
}

double Acceptance::yield(const SharedAcceptance& shared) const {
  constexpr double kWeight = 16;
  return (counts_.made + kWeight * shared.yield()) / (counts_.asked + kWeight);
}

}  // namespace mortise
