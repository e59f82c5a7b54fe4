// plugins/kernels/cpu/kernel_table.hpp: the kernels of one instruction set: one struct of function pointers per family.
#pragma once

#include "kernels/cpu/head/head_reduce.hpp"
#include "kernels/cpu/head/sample_token.hpp"
#include "kernels/cpu/linear/linear.hpp"
#include "kernels/cpu/linear_block32/linear_block32.hpp"
#include "kernels/cpu/linear_fp8/linear_fp8.hpp"
#include "kernels/cpu/linear_int/linear_int.hpp"
#include "kernels/cpu/linear_mxfp4/linear_mxfp4.hpp"
#include "kernels/cpu/rows/activation.hpp"
#include "kernels/cpu/rows/elementwise.hpp"
#include "kernels/cpu/rows/norm.hpp"
#include "kernels/cpu/rows/rope.hpp"
#include "kernels/cpu/span/span.hpp"

namespace mortise::cpu {

// The order of the sums of bf16 models, which decides their bits (docs/numerics.md, "Linear"): depth tiles, as AMX
// adds, of class cpu-bf16/1, or pairs, as VDPBF16PS adds, of class cpu-bf16-pairs/1.
enum class SumOrder { kTiles, kPairs };

// Members of the tables are references, so that the tables are constants. A table that code filled at load time would
// run AVX-512 instructions on machines without AVX-512.

// The kernels of bf16 models that add in one of the two orders.
struct Bf16Kernels {
  const LinearBf16Kernels& linear;
  const LinearMxfp4Kernel& linear_mxfp4_to_bf16;
  const LinearMxfp4Kernel& linear_mxfp4_to_f32;
  const SpanKernels& span;  // named by the cache's type if it is not bf16
  const SpanKernels& span_int8;
  const SpanKernels& span_fp8;
};

// All other kernels.
struct KernelTable {
  const ActivationKernels& activation;
  const ElementwiseKernels& elementwise;
  const HeadKernels& head;
  const LinearF32Kernels& linear_f32;
  const LinearBlock32Kernels& linear_block32;
  const LinearFp8Kernel& linear_fp8_to_bf16;  // of bf16 rows
  const LinearFp8Kernel& linear_fp8_to_f32;
  const LinearFp8Kernel& linear_fp8_f32;  // of f32 rows
  const LinearIntKernels& linear_int;
  const LinearMxfp4Kernel& linear_mxfp4_f32;  // of f32 rows
  const NormKernels& norm;
  const SampleKernels& sampling;
  const KvWriteKernels& kv_write;
  const RopeKernels& rope;
  const SpanKernels& span_f32;  // named by the model's type, then the cache's type if it differs
  const SpanKernels& span_f32_int8;
  const SpanKernels& span_f32_fp8;
};

}  // namespace mortise::cpu
