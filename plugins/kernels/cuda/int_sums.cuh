// plugins/kernels/cuda/int_sums.cuh: the registers of a warp of linear_int_stream: fragments of a chunk of weights and
// of q, and the sums of a group and of a tile (sixteen columns of y).
#pragma once

#include <cstdint>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/int_weight.hpp"
#include "kernels/cuda/mma.cuh"

namespace mortise::cuda {

constexpr int kTileRows = 8;  // rows in the b operand of the instruction

// The kind of weights. Symmetric 8-bit weights need no work for zero points.
enum class Kind { kSymmetric8, kAny8, k4 };
constexpr bool has_zeros(Kind kind) {
  return kind != Kind::kSymmetric8;
}
// Chunks in a piece, about 4 KiB. Even, because two sets of fragments alternate.
constexpr int piece_chunks(Kind kind) {
  return kind == Kind::k4 ? 4 : 2;
}

// A lane's part of q for two steps. A value of each thread.
template <int kTiles>
struct RowFragments {
  std::uint32_t x[kTiles][4];

  // `rows`: where this lane's rows begin; `column`: the byte offset within the rows that x has.
  __device__ __forceinline__ void load(const std::uint32_t (&rows)[kTiles], std::uint32_t has_row,
                                       std::uint32_t column) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) load_matrices(x[tile], rows[tile] + (has_row >> tile & 1u) * column);
  }
};

// A lane's part of a chunk: rows g and g + 8 of w, g = lane / 4. Registers hold q of a whole chunk only if there is one
// tile of rows. A value of each thread.
template <Kind kKind, int kSets, int kTiles>
struct Fragments {
  static constexpr int kVectors = kKind == Kind::k4 ? 2 : 4;
  uint4 w[kVectors];
  RowFragments<1> x[2];  // with one tile of rows
  float scale[kSets > 0 ? kSets : 1][2];
  int zero[kSets > 0 ? kSets : 1][2];

  __device__ __forceinline__ void load(std::uint32_t chunk, const std::uint32_t (&rows)[kTiles], std::uint32_t has_row,
                                       std::uint32_t column) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kTiles == 1) {
#pragma unroll
      for (int i = 0; i < 2; ++i) x[i].load(rows, has_row, column + i * 2 * kIntStep);
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) w[i] = load_sixteen(chunk + i * 512 + lane * 16);
#pragma unroll
    for (int i = 0; i < kSets; ++i) {
      const std::uint32_t set = chunk + kVectors * 512 + i * kIntSetBytes;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        scale[i][half] = load_scale(set + (lane / 4 + 8 * half) * 4);
        if constexpr (has_zeros(kKind)) {
          zero[i][half] = static_cast<int>(load_zero(set + 4 * kIntPanel + lane / 4 + 8 * half));
        }
      }
    }
  }
};

// A lane's element j of a tile is in column lane / 4 + 8 (j / 2) and row 2 (lane % 4) + j % 2, counted from 4 * row
// tile.
__device__ __forceinline__ int column_of(int j) {
  return static_cast<int>(threadIdx.x) % 32 / 4 + j / 2 % 2 * 8;
}
__device__ __forceinline__ int row_of(int j) {
  return j / 4 * kTileRows + static_cast<int>(threadIdx.x) % 4 * 2 + j % 2;
}

__device__ __forceinline__ void write_one(const LinearIntArgs& args, int tile, int column, int m, float sum,
                                          const float* row_scales) {
  const std::int64_t n = static_cast<std::int64_t>(tile) * kIntPanel + column;
  if (n >= args.n || m >= args.m) return;
  float y = __fmul_rn(sum, row_scales[m]);
  if (args.bias != nullptr) y = __fadd_rn(y, args.bias[n]);
  if (args.y_type == ElementType::kBf16) {
    put(static_cast<Bf16*>(args.y)[m * args.y_stride + n], y);
  } else {
    put(static_cast<float*>(args.y)[m * args.y_stride + n], y);
  }
}

// The sums of a group: of q * value, and of q if there are zero points. With one tile of rows, even and odd steps have
// sums of their own, so that no instruction waits for the one before. Also the f32 sums of the row. In registers: each
// thread of the warp has its own part; methods are called by whole warps. Invariant: acc_ is the f32 sum of the groups
// that end_group() has ended, in their order.
template <Kind kKind, int kTiles>
class Sums {
  static constexpr int kChains = kTiles == 1 ? 2 : 1;
  static constexpr int kOffset = kKind == Kind::k4 ? 0 : 128;  // stored bytes are value - 128

 public:
  // Adds step number `step` of a chunk, which is step i of its group. With one group a row (kSets is 0) the sums start
  // as 0.
  template <int kSets>
  __device__ __forceinline__ void add(const Fragments<kKind, kSets, kTiles>& f, const RowFragments<kTiles>& rows,
                                      int step, int i) {
    const int chain = i % kChains;
    const bool begins = kSets > 0 && i < kChains;
    const uint4& v = f.w[kKind == Kind::k4 ? step / 2 : step];
    std::uint32_t a[4] = {v.x, v.y, v.z, v.w};
    if constexpr (kKind == Kind::k4) {
#pragma unroll
      for (std::uint32_t& word : a) word = (step % 2 == 0 ? word : word >> 4) & 0x0f0f0f0fu;
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const std::uint32_t(&x)[4] = rows.x[tile];
      const std::uint32_t b[2] = {x[step % 2 * 2], x[step % 2 * 2 + 1]};
      add_one(dot_[tile][chain], a, b, begins);
      if constexpr (has_zeros(kKind)) {
        constexpr std::uint32_t kOnes[4] = {0x01010101u, 0x01010101u, 0x01010101u, 0x01010101u};
        add_one(sum_[tile][chain], kOnes, b, begins);
      }
    }
  }
  // The exact sum of element j over a group of kSteps steps.
  template <int kSteps>
  __device__ __forceinline__ int take(int j, const int (&zero)[2]) const {
    int dot = dot_[j / 4][0][j % 4], sum = sum_[j / 4][0][j % 4];
    if constexpr (kChains == 2 && kSteps > 1) {
      dot += dot_[j / 4][1][j % 4];
      if constexpr (has_zeros(kKind)) sum += sum_[j / 4][1][j % 4];
    }
    return has_zeros(kKind) ? dot - (zero[j / 2 % 2] - kOffset) * sum : dot;
  }

  // For tiles of a single warp: adds the group's term.
  template <int kSteps>
  __device__ __forceinline__ void end_group(const float (&scale)[2], const int (&zero)[2]) {
#pragma unroll
    for (int j = 0; j < 4 * kTiles; ++j) {
      acc_[j] = __fadd_rn(acc_[j], __fmul_rn(__int2float_rn(take<kSteps>(j, zero)), scale[j / 2 % 2]));
    }
  }
  __device__ __forceinline__ void write(const LinearIntArgs& args, int tile, const float* row_scales) const {
#pragma unroll
    for (int j = 0; j < 4 * kTiles; ++j) write_one(args, tile, column_of(j), row_of(j), acc_[j], row_scales);
  }

  // For tiles of a team: stores the group's terms as [kIntPanel][m].
  template <int kSteps>
  __device__ __forceinline__ void leave_terms(const float (&scale)[2], const int (&zero)[2], float* terms,
                                              int m) const {
#pragma unroll
    for (int j = 0; j < 4 * kTiles; ++j) {
      const float term = __fmul_rn(__int2float_rn(take<kSteps>(j, zero)), scale[j / 2 % 2]);
      if (row_of(j) < m) terms[column_of(j) * m + row_of(j)] = term;
    }
  }
  template <int kSteps>
  __device__ __forceinline__ void leave_integers(const int (&zero)[2], int* terms, int m) const {
#pragma unroll
    for (int j = 0; j < 4 * kTiles; ++j) {
      if (row_of(j) < m) terms[column_of(j) * m + row_of(j)] = take<kSteps>(j, zero);
    }
  }

 private:
  static __device__ __forceinline__ void add_one(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                                                 const std::uint32_t (&b)[2], bool begins) {
    begins ? first_mma_m16n8k32(d, a, b) : mma_m16n8k32(d, a, b);
  }
  std::int32_t dot_[kTiles][kChains][4] = {}, sum_[kTiles][kChains][4] = {};
  float acc_[4 * kTiles] = {};
};

}  // namespace mortise::cuda
