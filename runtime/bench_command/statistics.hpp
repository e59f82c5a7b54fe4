// runtime/bench_command/statistics.hpp: medians, and what pairs of measurements say about a ratio.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace mortise::bench {

double median(std::vector<double> values);  // REQUIRES: at least one

struct Bound {
  double low, high;
};

// How many times as large b is as a, from pairs that were measured one right after the other. What slows the machine
// for longer than a pair takes slows both and cancels; order within the pairs is to alternate, so that a drift cancels
// too.
struct PairedRatio {
  double ratio = 1;
  // The true ratio lies in it with at least 95 % probability: the interval that belongs to Wilcoxon's signed-rank test
  // on the logarithms (Hodges and Lehmann 1963), which assumes no distribution, only that noise favours neither side.
  // None with fewer than 6 pairs, which cannot say that much whatever they are.
  std::optional<Bound> bound;
};
PairedRatio paired_ratio(std::span<const double> a, std::span<const double> b);  // REQUIRES: as many, above 0

// The largest c with P(W <= c) <= 2.5 %, where W is the sum of the ranks of positive differences of n pairs when
// neither side is larger; nullopt when even W = 0 is likelier than that.
std::optional<std::size_t> signed_rank_critical(std::size_t n);

inline constexpr std::size_t kMinPairs = 6;
inline constexpr std::size_t kMaxPairs = 200;  // the averages of all pairs of pairs are sorted

}  // namespace mortise::bench
