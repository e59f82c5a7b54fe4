// plugins/kernels/cuda/verify_drafts.hpp: rejection sampling of one draft per row (docs/numerics.md, "Rejection
// sampling").
//   p = w / sum(w);  q = v / sum(v), v = round(distribution / its largest number * 2^32)
//   token = the draft, if u0 * q(draft) < p(draft), else the first whose running sum of max(0, p - q) exceeds u1 * all
// Shapes: those of mortise_verify_drafts_args. The caller has checked sizes; values in device memory are not checked.
// Order: sums are of integers and have none; everything else is per token, in double. Rows are independent.
// Cost: a few passes of one thread block over each row with a draft; logits are usually in the L2.
// Launches on `stream`, never waits, allocates nothing.
// Errors: the cudaError_t of the launch. Token -1 where no token can be drawn.
// Source: Leviathan, Kalman, Matias, arXiv:2211.17192; Chen et al., arXiv:2302.01318.
// Oracle: kernels/cpu/reference/verify_draft.hpp, bitwise (tests/plugins/devices/cuda/head_test.cpp).
#pragma once

#include "kernels/cuda/sample.hpp"

namespace mortise::cuda {

struct VerifyArgs {
  SampleArgs rows;                        // logprobs null; scratch: verify_drafts_scratch() bytes, 16-byte aligned
  const std::int32_t* drafts;             // [rows] -1: none
  const float* distributions;             // [.., vocab_size]
  std::int64_t distribution_stride;       // elements from row to row
  const std::int32_t* distribution_rows;  // [rows] -1: the draft was certain; null: all were
};

std::size_t verify_drafts_scratch(std::int64_t rows, std::int32_t vocab_size);
cudaError_t launch_verify_drafts(const VerifyArgs& args, cudaStream_t stream);

}  // namespace mortise::cuda
