#include "devices/cuda/algorithm_search.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

namespace mortise::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// A search ends after so long: a new shape or number of rows makes a request wait for it, once. Products with few
// weights take some microseconds with any algorithm, so for them the first candidates will do.
constexpr auto kLongest = std::chrono::milliseconds(250), kLongestOfSmall = std::chrono::milliseconds(15);
constexpr std::int64_t kSmallWeights = std::int64_t{1} << 20;  // elements
constexpr std::size_t kNeighbours = 3;                         // tiles whose options are tried in full
constexpr std::size_t kFinalists = 6;                          // timed again, the shortest of several runs
constexpr int kFinalRuns = 5;

// Tile, custom option and cluster shape of algorithm 66 (warp-specialised kernels for Hopper, stages 64xAUTO) that were
// the best of all 118,580 configurations without split-K on an H200 for some number of rows of 16 products, from a 68M
// model's to an 8B model's. The tiles are CUBLASLT_MATMUL_TILE_*.
constexpr std::int32_t kHopper = 66, kStages = CUBLASLT_MATMUL_STAGES_64xAUTO;
struct Known {
  std::int32_t tile, custom, cluster;
};
constexpr Known kKnown[] = {
    {7, 0, 2},   {10, 1, 2},  {10, 1, 3},  {10, 1, 4},  {10, 1, 5},  {10, 1, 9},  {10, 3, 2},  {10, 3, 3},  {10, 3, 5},
    {12, 0, 2},  {12, 0, 4},  {12, 0, 7},  {13, 1, 2},  {13, 3, 5},  {15, 0, 2},  {15, 0, 5},  {15, 2, 2},  {15, 2, 5},
    {15, 3, 2},  {16, 1, 3},  {17, 3, 5},  {18, 0, 2},  {18, 1, 4},  {18, 7, 2},  {20, 1, 3},  {20, 2, 5},  {20, 3, 5},
    {23, 4, 3},  {24, 7, 5},  {27, 0, 4},  {27, 2, 5},  {28, 2, 5},  {28, 4, 5},  {28, 6, 2},  {31, 6, 5},  {31, 7, 5},
    {32, 7, 2},  {32, 7, 5},  {47, 2, 2},  {59, 0, 4},  {59, 0, 5},  {59, 2, 5},  {92, 0, 4},  {92, 2, 2},  {124, 2, 5},
    {152, 6, 5}, {164, 0, 7}, {164, 2, 2}, {183, 0, 3}, {184, 2, 5}, {197, 2, 5}, {201, 2, 5}, {208, 6, 2}, {220, 4, 5},
    {221, 6, 5}, {227, 6, 6}, {312, 1, 2}, {312, 1, 4}, {312, 3, 2}, {312, 3, 3}, {312, 3, 6}, {313, 1, 4}, {313, 1, 5},
    {313, 3, 2}, {393, 1, 3}, {393, 3, 2}, {393, 7, 2}, {393, 7, 4}, {394, 1, 3}, {394, 7, 3}, {394, 7, 5}, {395, 3, 5},
    {395, 7, 3}, {422, 7, 3}, {459, 1, 5}, {488, 3, 2},
};
constexpr std::int32_t kMaxCustom = 7;
constexpr std::int32_t kClusters[] = {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1,
                                      CUBLASLT_CLUSTER_SHAPE_4x1x1, CUBLASLT_CLUSTER_SHAPE_1x2x1,
                                      CUBLASLT_CLUSTER_SHAPE_2x2x1, CUBLASLT_CLUSTER_SHAPE_1x4x1};

LtConfig hopper(const Known& known) {
  return {kHopper, known.tile, kStages, 1, 0, 0, known.custom, 0, known.cluster};
}

class Search {
 public:
  Search(AlgorithmTrial& trial, const LinearShape& shape)
      : trial_(trial), longest_(shape.n * shape.k <= kSmallWeights ? kLongestOfSmall : kLongest) {}

  void consider(const LtConfig& config) {
    if (Clock::now() - begin_ > longest_ || !seen_.insert(config).second) return;
    const float time = trial_.time(config, 1);
    if (time < std::numeric_limits<float>::infinity()) timed_.push_back({time, config});
  }

  // The fastest, best first; each of another tile.
  std::vector<LtConfig> best_tiles(std::size_t count) {
    std::sort(timed_.begin(), timed_.end());
    std::vector<LtConfig> best;
    std::set<std::int32_t> tiles;
    for (const auto& [time, config] : timed_) {
      if (best.size() < count && tiles.insert(config[kConfigTile]).second) best.push_back(config);
    }
    return best;
  }

  Choice best_with_right_bits() {
    std::sort(timed_.begin(), timed_.end());
    const auto finalists = std::min(kFinalists, timed_.size());
    for (std::size_t i = 0; i < finalists; ++i) timed_[i].first = trial_.time(timed_[i].second, kFinalRuns);
    std::sort(timed_.begin(), timed_.begin() + static_cast<std::ptrdiff_t>(finalists));
    for (const auto& [time, config] : timed_) {
      if (trial_.equal_bits(config)) return config;
    }
    return std::nullopt;
  }

 private:
  AlgorithmTrial& trial_;
  const Clock::duration longest_;
  const Clock::time_point begin_ = Clock::now();
  std::set<LtConfig> seen_;
  std::vector<std::pair<float, LtConfig>> timed_;
};

}  // namespace

Choice search_algorithm(AlgorithmTrial& trial, const LinearShape& shape) {
  Search search(trial, shape);
  for (const LtConfig& offer : trial.offers()) search.consider(offer);
  for (const Known& known : kKnown) search.consider(hopper(known));
  for (LtConfig config : search.best_tiles(kNeighbours)) {
    for (std::int32_t custom = 0; custom <= kMaxCustom; ++custom) {
      for (const std::int32_t cluster : kClusters) {
        config[kConfigCustom] = custom;
        config[kConfigCluster] = cluster;
        search.consider(config);
      }
    }
  }
  return search.best_with_right_bits();
}

}  // namespace mortise::cuda
