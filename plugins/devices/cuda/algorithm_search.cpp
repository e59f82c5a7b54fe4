#include "devices/cuda/algorithm_search.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "devices/cuda/known_algorithms.hpp"

namespace mortise::cuda {
namespace {

constexpr std::size_t kOffers = 2;  // offers of the heuristic; each further one loads kernels for 3 ms and gains 0.1 %
constexpr std::size_t kFinalists = 4;
constexpr int kFinalRuns = 5;

std::vector<LtConfig> algorithms_to_try(AlgorithmTrial& trial) {
  const auto known = known_algorithms();
  std::vector<LtConfig> all(known.begin(), known.end());
  std::vector<LtConfig> offers = trial.offers();
  if (offers.size() > kOffers) offers.resize(kOffers);
  for (const LtConfig& offer : offers) {
    if (std::find(all.begin(), all.end(), offer) == all.end()) all.push_back(offer);
  }
  return all;
}

}  // namespace

AlgorithmChoice search_algorithm(AlgorithmTrial& trial) {
  std::vector<std::pair<float, LtConfig>> timed;
  for (const LtConfig& config : algorithms_to_try(trial)) {
    const float time = trial.time(config, 1);
    if (time < std::numeric_limits<float>::infinity()) timed.push_back({time, config});
  }
  std::sort(timed.begin(), timed.end());
  const auto finalists = std::min(kFinalists, timed.size());
  for (std::size_t i = 0; i < finalists; ++i) timed[i].first = trial.time(timed[i].second, kFinalRuns);
  std::sort(timed.begin(), timed.begin() + static_cast<std::ptrdiff_t>(finalists));
  for (const auto& [time, config] : timed) {
    if (trial.equal_bits(config)) return config;
  }
  return std::nullopt;
}

}  // namespace mortise::cuda
