#include "devices/cuda/known_algorithms.hpp"

#include <cublasLt.h>

#include <string_view>

namespace mortise::cuda {
namespace {

// Algorithm 66 is the family of warp-specialised kernels for Hopper. Attributes that are not parameters are the same
// for all: stages 64xAUTO, no split-K, no swizzle.
constexpr LtConfig hopper(std::int32_t tile, std::int32_t custom, std::int32_t cluster) {
  return {66, tile, CUBLASLT_MATMUL_STAGES_64xAUTO, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 0, custom, 0, cluster};
}

// Chosen from the times of 1,796 configurations: the heuristic's offers, the best of an exhaustive search on an H200,
// and neighbours of the best. The list was grown one configuration at a time, each time by the one that gains most.
// Tiles are CUBLASLT_MATMUL_TILE_*, clusters CUBLASLT_CLUSTER_SHAPE_*.
constexpr LtConfig kKnown[] = {
    hopper(164, 0, 7),
    hopper(20, 1, 3),
    hopper(15, 0, 2),
    hopper(31, 6, 5),
    hopper(499, 7, 5),
    hopper(18, 0, 2),
    hopper(28, 0, 3),
    hopper(13, 1, 2),
    hopper(201, 2, 5),
    hopper(184, 0, 3),
    hopper(27, 0, 2),
    hopper(20, 0, 2),
    hopper(20, 3, 5),
    hopper(312, 1, 2),
    hopper(201, 0, 8),
    hopper(32, 4, 3),
    hopper(183, 0, 3),
    hopper(164, 2, 5),
    hopper(422, 7, 3),
    hopper(47, 2, 2),
    hopper(165, 0, 3),
    hopper(92, 0, 3),
    hopper(20, 1, 4),
    hopper(28, 2, 5),
    hopper(197, 2, 5),
    hopper(92, 0, 2),
    hopper(184, 4, 2),
    hopper(18, 4, 2),
    hopper(28, 4, 5),
    hopper(20, 2, 2),
    hopper(135, 4, 5),
    hopper(28, 0, 2),
    hopper(209, 5, 3),
    hopper(248, 4, 3),
    hopper(31, 4, 2),
    hopper(405, 1, 6),
    // Offers of the heuristic that won two other searches, for 8192 rows of an 8B model.
    hopper(24, 7, 5),
    hopper(416, 5, 3),
    hopper(500, 5, 3),
};
constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static_assert(std::size(kKnown) <= kDigits.size());

// The number of multiprocessors of an H100 or H200, SXM or NVL. (The PCIe card has 114.)
constexpr int kMeasuredMultiprocessors = 132;
constexpr std::size_t kMeasuredCublasLt = 130100;

// A shape and its choices: a string with one character for each bucket of rows. A digit of kDigits is a place in
// kKnown. '.' means that another kernel serves these rows, or that the start must search: this is so from 1024 rows on
// for weights of more than 2^20 elements (except 8192 rows of an 8B model), since measurements on different H100s
// disagreed there by up to a fifth.
struct ShippedShape {
  std::int64_t n, k;
  bool f32_out, bias;
  std::string_view by_rows;
};
constexpr ShippedShape kShipped[] = {
#include "devices/cuda/shipped_choices.inc"
};

}  // namespace

std::span<const LtConfig> known_algorithms() {
  return kKnown;
}

char known_algorithm_digit(std::size_t place) {
  return kDigits[place];
}

AlgorithmChoices shipped_choices(int multiprocessors, std::size_t cublaslt) {
  AlgorithmChoices choices;
  if (multiprocessors != kMeasuredMultiprocessors || cublaslt != kMeasuredCublasLt) return choices;
  for (const ShippedShape& shape : kShipped) {
    for (std::size_t i = 0; i < shape.by_rows.size() && i < kRowBuckets.size(); ++i) {
      const std::size_t place = kDigits.find(shape.by_rows[i]);
      if (place >= std::size(kKnown)) continue;
      choices[{shape.n, shape.k, shape.f32_out, shape.bias, kRowBuckets[i]}] = kKnown[place];
    }
  }
  return choices;
}

}  // namespace mortise::cuda
