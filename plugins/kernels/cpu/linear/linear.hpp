// linear.hpp: y = x w^T + bias, numerics classes cpu-bf16/1 and cpu-f32/1.
//
//   y[m,n] = bias[n] + sum_k x[m,k] w[n,k]
//   x     bf16 or f32 [M, K]   rows x_stride elements apart
//   w     packed by linear/pack.hpp from [N, K]
//   bias  f32 [N], may be null  (a bf16 bias is widened when the model is loaded: that is exact)
//   y     bf16 or f32 [M, N]   rows y_stride elements apart
//
// Order, which makes the bits: K in tiles of 32, the last one filled up with zeros. Per tile, each from 0:
//   a = fma chain over k = 0, 2, .. 30;  b = fma chain over k = 1, 3, .. 31;  acc = acc + (a + b)
// then one addition of the bias and one rounding to the type of y. Denormals off throughout. With bf16 inputs this is
// what the AMX instruction TDPBF16PS computes; every other instruction set does the same with f32 FMA.
// So the bits of a row depend neither on M nor on how rows and columns are split among threads; K is never split.
//
// Cost: memory bound for few rows (reads the packed weights once per call and range), compute bound for many.
// Oracle: reference/linear.hpp, bitwise; that one against a double loop.
#pragma once

#include "kernels/cpu/rows/activation.hpp"

namespace mortise::cpu {

struct LinearArgs {
  const void* x;  // bf16 or f32, by the kernel
  std::size_t x_stride;
  const void* w;  // packed
  const float* bias;
  void* y;
  std::size_t y_stride;
  std::size_t m, n, k;  // the whole product; a call computes a range of it
  void* scratch;        // scratch_bytes(m, k), 64-byte aligned; prepared for all rows of the range
  Activation gate{};    // of run_gated
};

// Weights that a kernel reads again and again while many rows pass: what a second-level cache of 2 MiB keeps beside
// rows on their way through. Who shares columns out gives a thread as many at a time, and no fewer.
constexpr std::size_t kLinearChunkBytes = std::size_t{5} << 18;

// Rows [m0, m1) and columns [n0, n1). REQUIRES: m0 is a multiple of 32 and n0 of 16; m1 and n1 are too, or are m and n.
struct LinearRange {
  std::size_t m0, m1, n0, n1;
  std::size_t ahead = 0;  // columns from n1 on that this thread most likely takes next: their weights may be asked for
};

// Most instruction sets want x in another form (widened to f32). AMX reads it as it lies, best when rows begin at
// multiples of 64 bytes that are no multiple of 1024 (those share the few sets of a cache). `prepare` makes it in
// args.scratch for the rows [m0, m1), under the same rule as a range. It is the same for all columns, so threads that
// split columns share it; but they must not start before it is complete. Where scratch_bytes gives 0 there is nothing
// to prepare.
struct LinearKernel {
  std::size_t (*scratch_bytes)(std::size_t m, std::size_t k);
  void (*prepare)(const LinearArgs& args, std::size_t m0, std::size_t m1);
  void (*run)(const LinearArgs& args, const LinearRange& range);
  // y [M, N / 2]: the columns of the range are y's, and out of w's rows n and N / 2 + n comes column n of y, with the
  // bits of run and then gated (activation.hpp). REQUIRES: N / 2 is a multiple of 16. Null where it is no faster.
  void (*run_gated)(const LinearArgs& args, const LinearRange& range);
};

struct LinearBf16Kernels {  // cpu-bf16/1: x and w bf16
  LinearKernel to_bf16;
  LinearKernel to_f32;
};
struct LinearF32Kernels {  // cpu-f32/1: x and w f32
  LinearKernel to_f32;
};

}  // namespace mortise::cpu
