// examples/suffix/confidence.hpp: how often a favourite comes true, learned from what the target generated.
//
// A favourite's chance depends on where it comes from, on how many tokens match, and on how often they went on in this
// way. These three choose a bin. A bin begins with a guess and counts the favourites that came true. Counts are halved
// when there are many, so that a table follows a change of the texts.
#pragma once

#include <array>
#include <cstdint>

namespace suffix {

enum class Source { kOwnText, kOtherTexts };

// Invariant: no bin has counted more favourites that came true than favourites. Not thread-safe.
class Confidence {
 public:
  // `window`: the counts of a bin are halved beyond this number. `guess_weight`: how many observations a guess is
  // worth.
  Confidence(int window, float guess_weight) : window_(window), guess_weight_(guess_weight) {}

  // The bin of a favourite after `length` matching tokens, which came in `count` of `total` cases.
  static int bin(Source source, int32_t length, int32_t count, int32_t total) {
    int by_length = 0;
    while (by_length < kLengths - 1 && length >= kFrom[static_cast<std::size_t>(by_length) + 1]) ++by_length;
    const int by_share = 2 * count < total ? 0 : 10 * count < 9 * total ? 1 : total == 1 ? 2 : 3;
    return (static_cast<int>(source) * kLengths + by_length) * kShares + by_share;
  }
  // A guess for a table that has seen nothing: long matches, and cases that agree, are usually right.
  static float first_guess(int bin) {
    constexpr std::array<float, kLengths> by_length = {0.25f, 0.4f, 0.55f, 0.65f, 0.75f, 0.85f, 0.9f, 0.95f, 0.97f};
    constexpr std::array<float, kShares> by_share = {0.4f, 0.75f, 0.95f, 1.0f};
    return by_length[static_cast<std::size_t>(bin / kShares % kLengths)] *
           by_share[static_cast<std::size_t>(bin % kShares)];
  }

  void learn(int bin, bool came_true) {
    Counts& counts = counts_[static_cast<std::size_t>(bin)];
    ++counts.seen;
    counts.true_ones += came_true ? 1 : 0;
    if (counts.seen < window_) return;
    counts.seen /= 2;
    counts.true_ones /= 2;
  }
  // The chance of a favourite in this bin. Where little was seen, `guess` decides.
  float of(int bin, float guess) const {
    const Counts& counts = counts_[static_cast<std::size_t>(bin)];
    return (static_cast<float>(counts.true_ones) + guess_weight_ * guess) /
           (static_cast<float>(counts.seen) + guess_weight_);
  }

 private:
  static constexpr int kSources = 2, kLengths = 9, kShares = 4;
  static constexpr std::array<int32_t, kLengths> kFrom = {1, 2, 3, 4, 5, 7, 10, 16, 32};  // tokens
  struct Counts {
    uint16_t seen = 0, true_ones = 0;
  };

  int window_;
  float guess_weight_;
  std::array<Counts, std::size_t{kSources} * kLengths * kShares> counts_{};
};

}  // namespace suffix
