#include "speculation/prediction.hpp"

#include <algorithm>

namespace mortise {
namespace {

// A lookup compares the last kMaxMatch generated tokens with the prediction and needs kMinMatch equal ones. The
// place with the most equal tokens wins; if there are several, the first of them.
constexpr std::size_t kMinMatch = 2, kMaxMatch = 8;
// After this many accepted tokens in a row the place is right, so later lookups begin after it. At a wrong place fewer
// tokens match.
constexpr std::size_t kSure = 4;
constexpr std::size_t kLongest = std::size_t{1} << 20;  // the most drafts at once

std::size_t match_length(std::span<const std::int32_t> generated, std::span<const std::int32_t> predicted) {
  const std::size_t most = std::min({generated.size(), predicted.size(), kMaxMatch});
  std::size_t length = 0;
  while (length < most && generated[generated.size() - 1 - length] == predicted[predicted.size() - 1 - length]) {
    ++length;
  }
  return length;
}

}  // namespace

Prediction::Prediction(std::span<const std::int32_t> tokens, bool resumed)
    : tokens_(tokens), stood_(tokens.size(), false), state_(resumed ? State::kCertain : State::kFollowed) {
  length_ = std::clamp(static_cast<std::size_t>(kFirstShare * static_cast<double>(tokens.size())), kMin, kFirst);
  account_ = 2.0 * static_cast<double>(length_);  // pays for failing at once, and for drafts once it is found again
  draft();
}

void Prediction::advance(std::span<const std::int32_t> generated, std::size_t num_committed) {
  if (tokens_.empty()) return;
  for (std::size_t known = generated.size() - num_committed + 1; known <= generated.size(); ++known) {
    account_ += kShare;
    if (state_ != State::kLost) follow(generated[known - 1]);
    if (state_ == State::kLost) find(generated.first(known));
  }
}

// Advances in the prediction if `token` is the next token there; otherwise the prediction is lost. The step that
// verifies drafts adds one token after them. If that token is right too, new drafts begin.
void Prediction::follow(std::int32_t token) {
  if (next_ == tokens_.size()) return;
  const bool was_drafted = next_ < drafts_end_;
  if (tokens_[next_] != token) {
    account_ -= static_cast<double>(drafts_end_ - next_);
    state_ = State::kLost;
    drafts_end_ = next_;
    length_ = kAgain;
    if (num_stood_ >= kSure) behind_ = next_;
    return;
  }
  if (!stood_[next_]) ++num_accepted_;
  stood_[next_++] = true;
  ++num_stood_;
  if (!was_drafted) {
    draft();
    return;
  }
  account_ += static_cast<double>(kGrowth - 1);
  if (next_ == drafts_end_) length_ = std::min(length_ * kGrowth, kLongest);
}

void Prediction::find(std::span<const std::int32_t> generated) {
  if (account_ < static_cast<double>(kMin) || generated.size() < kMinMatch) return;  // a lookup would not help
  std::size_t longest = kMinMatch - 1;
  const auto next_after = [&](auto from) { return std::find(from, tokens_.end(), generated.back()); };
  for (auto at = next_after(tokens_.begin() + static_cast<std::ptrdiff_t>(behind_)); at != tokens_.end();
       at = next_after(at + 1)) {
    const auto end = static_cast<std::size_t>(at - tokens_.begin()) + 1;
    const std::size_t length = match_length(generated, tokens_.first(end));
    if (length <= longest || end == tokens_.size()) continue;
    longest = length;
    next_ = end;
    state_ = State::kFollowed;
    if (length == kMaxMatch) break;
  }
  if (state_ == State::kLost) return;
  num_stood_ = 0;
  draft();
}

// Chooses the drafts that begin at the next token.
void Prediction::draft() {
  const std::size_t left = tokens_.size() - next_;
  const auto affordable = static_cast<std::size_t>(std::clamp(account_, 0.0, static_cast<double>(length_)));
  const std::size_t count = state_ == State::kCertain ? left : std::min(left, affordable);
  drafts_end_ = next_ + (count < std::min(kMin, left) ? 0 : count);
}

}  // namespace mortise
