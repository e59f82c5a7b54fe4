// plugins/kernels/cpu/linear/linear.hpp: y = x w^T + bias, numerics classes cpu-bf16/1, cpu-bf16-pairs/1 and
// cpu-f32/1.
//
//   y[m,n] = bias[n] + sum_k x[m,k] w[n,k]
//   x     bf16 or f32 [M, K]   rows x_stride elements apart
//   w     packed by linear/pack.hpp from [N, K]
//   bias  f32 [N], may be null  (a bf16 bias is widened when the model is loaded: that is exact)
//   y     bf16 or f32 [M, N]   rows y_stride elements apart
//
// Order: depth tiles of 32 k, ascending; the last is padded with zeros. For each depth tile, both chains starting at 0:
//   a = fma chain over k = 0, 2, .. 30;  b = fma chain over k = 1, 3, .. 31;  acc = acc + (a + b)
// In pairs (class cpu-bf16-pairs/1) there is one chain over all of K, padded alike, each pair's odd element first:
//   acc = fma(x[m,k], w[n,k], fma(x[m,k+1], w[n,k+1], acc))  for k = 0, 2, ..
// Then one addition of the bias and one rounding to the type of y. Denormals are off. On bf16 this is what the AMX
// instruction TDPBF16PS computes, and VDPBF16PS in pairs; the other instruction sets do the same with f32 FMA. K is
// never split, so the bits of a row depend neither on M nor on how threads divide rows and columns.
//
// Cost: memory bound for few rows (reads the packed weights once per call and range), compute bound for many.
// Errors: none; the caller checks shapes.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBF16PS and VDPBF16PS.
// Oracle: reference/linear.hpp, bitwise (linear_test.cpp, amx_test.cpp), which is itself compared with a double loop.
#pragma once

#include "kernels/cpu/rows/activation.hpp"

namespace mortise::cpu {

struct LinearArgs {
  const void* x;  // bf16 or f32, according to the kernel
  std::size_t x_stride;
  const void* w;  // packed
  const float* bias;
  void* y;
  std::size_t y_stride;
  std::size_t m, n, k;  // the whole product; each call computes a range of it
  void* scratch;        // scratch_bytes(m, k), 64-byte aligned; prepared for all rows of the range
  Activation gate{};    // for run_gated only
};

// The bytes of weights that a kernel reads repeatedly while many rows pass. A second-level cache of 2 MiB holds them
// beside the rows. A caller that divides columns among threads should give each thread at least this much at a time.
constexpr std::size_t kLinearChunkBytes = std::size_t{5} << 18;

// Rows [m0, m1) and columns [n0, n1) of y. REQUIRES: m0 is a multiple of 32 and n0 of 16; m1 and n1 as well, unless
// they equal m and n.
struct LinearRange {
  std::size_t m0, m1, n0, n1;
  // The columns from n1 on that this thread will probably take next; their weights may be prefetched.
  std::size_t ahead = 0;
};

// Most instruction sets need x in another form (widened to f32): `prepare` writes it to args.scratch for the rows [m0,
// m1), which obey the same rule as a range. Threads that each compute some columns of these rows share this scratch:
// none may call `run` before `prepare` has returned. If scratch_bytes is 0 there is nothing to prepare: AMX reads x in
// place. AMX is fastest when the rows of x begin at multiples of 64 bytes but not of 1024; rows 1024 bytes apart share
// a few cache sets.
struct LinearKernel {
  std::size_t (*scratch_bytes)(std::size_t m, std::size_t k);
  void (*prepare)(const LinearArgs& args, std::size_t m0, std::size_t m1);
  void (*run)(const LinearArgs& args, const LinearRange& range);
  // y [M, N / 2]: the range counts columns of y. Column n of y comes from rows n and N / 2 + n of w, with the bits of
  // run followed by gated (rows/activation.hpp). REQUIRES: N / 2 is a multiple of 16. Null if it would not be faster.
  void (*run_gated)(const LinearArgs& args, const LinearRange& range);
};

struct LinearBf16Kernels {  // cpu-bf16/1 or cpu-bf16-pairs/1: x and w bf16
  LinearKernel to_bf16;
  LinearKernel to_f32;
};
struct LinearF32Kernels {  // cpu-f32/1: x and w f32
  LinearKernel to_f32;
};

}  // namespace mortise::cpu
