// plugins/kernels/cuda/sample.hpp: draws one token from each row of logits (docs/numerics.md, "Sampling").
//   x = clean(edits(logits)) of allowed tokens / temperature;  kept = top_p(top_k(min_p(x)))
//   token = arg max over kept of x + noise(key, position, token); the lowest id wins ties
// Shapes: the fields of mortise_sample_args. The caller has checked sizes; values in device memory are not checked.
// Order: integer weights and maxima have none; everything else is per token. Rows are independent.
// Cost: a few passes over the logits, which are usually in the L2.
// Launches on `stream`, never waits, allocates nothing.
// Errors: the cudaError_t of the launch. Token -1 where no token can be drawn.
// Source: noise from Philox4x32-10, Salmon et al., SC 2011; top-p, arXiv:1904.09751; min-p, arXiv:2407.01082.
// Oracle: kernels/cpu/reference/sample_token.hpp, bitwise (tests/plugins/devices/cuda/head_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

// One edit of one logit. Same layout as mortise_logit_edit, which specifies its effect.
struct LogitEdit {
  std::int32_t token;
  float bias, repetition, subtract;
};

struct SampleArgs {
  const float* logits;
  std::int64_t stride, rows;
  std::int32_t vocab_size;
  const float* temperatures;
  const std::int32_t* top_ks;
  const float *top_ps, *min_ps;
  const std::uint64_t* keys;
  const std::int64_t* positions;
  const LogitEdit* edits;  // 16-byte aligned; edits of tokens outside of the vocabulary are ignored
  const std::int32_t *edit_begins, *edit_counts;  // edit_begins null: no edits
  const std::int32_t* allowed_index;              // null: all tokens are allowed
  const std::uint32_t* allowed_masks;
  std::int32_t* tokens;
  float* logprobs;  // may be null
  void* scratch;    // sample_scratch() bytes, 16-byte aligned
};

std::size_t sample_scratch(std::int64_t rows, std::int32_t vocab_size);
cudaError_t launch_sample(const SampleArgs& args, cudaStream_t stream);

// The single-kernel form, which launch_sample uses for rows of up to kSmallVocab logits.
constexpr std::int32_t kSmallVocab = 6144;  // as f32 they fit beside a block's other data into 48 KiB of shared memory
cudaError_t launch_sample_small(const SampleArgs& args, cudaStream_t stream);

// noise[i] = the noise of token first_id + i. For tests.
cudaError_t launch_noise(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::int32_t n, float* noise,
                         cudaStream_t stream);

}  // namespace mortise::cuda
