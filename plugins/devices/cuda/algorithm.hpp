// algorithm.hpp: which algorithm serves a product: its configuration as numbers, as the tuning file keeps it.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>

namespace mortise::cuda {

// What an algorithm is chosen for. `rows` is a bucket: the largest number of rows that it serves.
struct LinearShape {
  std::int64_t n = 0, k = 0;
  bool f32_out = false, bias = false;
  std::int64_t rows = 0;
  auto operator<=>(const LinearShape&) const = default;
};

// cublasLtMatmulAlgo_t as its attributes: id, tile, stages, splitk, reduction, swizzle, custom, inner, cluster.
using LtConfig = std::array<std::int32_t, 9>;
constexpr int kConfigTile = 1, kConfigSplitK = 3, kConfigReduction = 4, kConfigCustom = 6, kConfigCluster = 8;

// Nothing: the kernel of linear_mma.hpp.
using Choice = std::optional<LtConfig>;
using Choices = std::map<LinearShape, Choice>;

}  // namespace mortise::cuda
