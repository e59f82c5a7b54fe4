// algorithm.hpp: which algorithm serves a product: its configuration as numbers, as the tuning file keeps it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace mortise::cuda {

// The rows that algorithms are chosen for; from 64 on finer, since there the products themselves take time: 192 rows
// with what is best for 256 took 1.6 times as long on an H200 (8B's down projection).
constexpr std::array<std::int64_t, 19> kRowBuckets = {1,   2,   4,   8,   16,   32,   64,   96,   128, 192,
                                                      256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192};

// What an algorithm is chosen for. `rows` is a bucket: the largest number of rows that it serves.
struct LinearShape {
  std::int64_t n = 0, k = 0;
  bool f32_out = false, bias = false;
  std::int64_t rows = 0;
  auto operator<=>(const LinearShape&) const = default;
};

// cublasLtMatmulAlgo_t as its attributes: id, tile, stages, splitk, reduction, swizzle, custom, inner, cluster.
using LtConfig = std::array<std::int32_t, 9>;
constexpr std::size_t kConfigSplitK = 3, kConfigReduction = 4;

// Nothing: the kernel of linear_mma.hpp.
using Choice = std::optional<LtConfig>;
using Choices = std::map<LinearShape, Choice>;

}  // namespace mortise::cuda
