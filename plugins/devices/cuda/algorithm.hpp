// plugins/devices/cuda/algorithm.hpp: an algorithm of cuBLASLt as numbers, as the tuning file stores it, and the shapes
// that algorithms are chosen for.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace mortise::cuda {

// Numbers of rows that algorithms are chosen for. From 64 on they are closer together, because the products take longer
// than the launch: 192 rows with the best algorithm for 256 took 1.6 times as long on an H200 (8B's down projection).
constexpr std::array<std::int64_t, 19> kRowBuckets = {1,   2,   4,   8,   16,   32,   64,   96,   128, 192,
                                                      256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192};

// A shape that an algorithm is chosen for. `rows` is a bucket: the largest number of rows that it serves.
struct LinearShape {
  std::int64_t n = 0, k = 0;
  bool f32_out = false, bias = false;
  std::int64_t rows = 0;
  auto operator<=>(const LinearShape&) const = default;
};

// The attributes of a cublasLtMatmulAlgo_t: id, tile, stages, splitk, reduction, swizzle, custom, inner, cluster.
using LtConfig = std::array<std::int32_t, 9>;
constexpr std::size_t kConfigSplitK = 3, kConfigReduction = 4;

// The algorithm for a shape; nullopt means the kernel of linear_mma.hpp.
using AlgorithmChoice = std::optional<LtConfig>;
using AlgorithmChoices = std::map<LinearShape, AlgorithmChoice>;

}  // namespace mortise::cuda
