#include "speculation/acceptance.hpp"

namespace mortise {
namespace {

constexpr double kFade = 0.95;        // a verification: an outcome counts for about 20
constexpr double kPriorWeight = 4.0;  // in draft tokens
constexpr double kSharedStep = 1.0 / 48;

}  // namespace

void Acceptance::add(std::int32_t num_asked, std::int32_t num_drafts, std::int32_t num_accepted) {
  asked_ = asked_ * kFade + num_asked;
  made_ = made_ * kFade + num_drafts;
  if (num_drafts == 0) return;
  accepted_ = accepted_ * kFade + num_accepted;
  rejected_ = rejected_ * kFade + (num_accepted < num_drafts ? 1 : 0);  // what follows a rejected one says nothing
}

double Acceptance::rate(double prior) const {
  return (accepted_ + kPriorWeight * prior) / (accepted_ + rejected_ + kPriorWeight);
}

double Acceptance::yield() const {
  return (made_ + 1) / (asked_ + 1);
}

void SharedAcceptance::add(std::int32_t num_drafts, std::int32_t num_accepted) {
  for (std::int32_t i = 0; i < num_accepted; ++i) rate_ += kSharedStep * (1 - rate_);
  if (num_accepted < num_drafts) rate_ -= kSharedStep * rate_;
}

}  // namespace mortise
