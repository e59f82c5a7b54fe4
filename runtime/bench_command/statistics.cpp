#include "bench_command/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace mortise::bench {

double median(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<std::size_t> signed_rank_critical(std::size_t n) {
  // probability[w] of W = w: each rank is in the sum with probability 1/2.
  std::vector<double> probability(n * (n + 1) / 2 + 1, 0.0);
  probability[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    for (std::size_t w = probability.size(); w-- > 0;) {
      probability[w] = 0.5 * (probability[w] + (w >= rank ? probability[w - rank] : 0.0));
    }
  }
  double sum = 0;
  std::optional<std::size_t> critical;
  for (std::size_t w = 0; w < probability.size(); ++w) {
    sum += probability[w];
    if (sum > 0.025) break;
    critical = w;
  }
  return critical;
}

PairedRatio paired_ratio(std::span<const double> a, std::span<const double> b) {
  assert(a.size() == b.size() && !a.empty());
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(std::log(b[i] / a[i]));
  std::vector<double> averages;
  for (std::size_t i = 0; i < differences.size(); ++i) {
    for (std::size_t j = i; j < differences.size(); ++j) averages.push_back((differences[i] + differences[j]) / 2);
  }
  std::sort(averages.begin(), averages.end());
  PairedRatio result;
  result.ratio = std::exp(median(averages));
  if (const auto critical = signed_rank_critical(a.size())) {
    result.bound = Bound{std::exp(averages[*critical]), std::exp(averages[averages.size() - 1 - *critical])};
  }
  return result;
}

}  // namespace mortise::bench
