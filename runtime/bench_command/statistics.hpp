// runtime/bench_command/statistics.hpp: computes medians, and ratios from pairs of measurements.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace mortise::bench {

double median(std::vector<double> values);  // REQUIRES: there is a value

struct Bound {
  double low, high;
};

// The ratio of b to a, from pairs that were measured directly after each other. A slowdown of the machine that lasts
// longer than a pair affects both and cancels. The order within pairs should alternate, so that a drift cancels as
// well.
struct PairedRatio {
  double ratio = 1;
  // Contains the true ratio with a probability of at least 95 %: the interval of Wilcoxon's signed-rank test on the
  // logarithms (Hodges and Lehmann 1963). It assumes no distribution, only that noise favours neither side. nullopt
  // with fewer than 6 pairs, which are not enough.
  std::optional<Bound> bound;
};
// REQUIRES: both have the same size, and all values are above 0.
PairedRatio paired_ratio(std::span<const double> a, std::span<const double> b);

// Returns the largest c with P(W <= c) <= 2.5 %, where W is the sum of the ranks of positive differences among n pairs
// if neither side is larger. nullopt if even P(W = 0) is larger.
std::optional<std::size_t> signed_rank_critical(std::size_t n);

inline constexpr std::size_t kMinPairs = 6;
inline constexpr std::size_t kMaxPairs = 200;  // because the averages of all pairs of pairs are sorted

}  // namespace mortise::bench
