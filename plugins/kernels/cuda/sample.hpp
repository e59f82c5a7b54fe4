// sample.hpp: draws a token from each row of logits; docs/numerics.md, "Sampling", is the procedure. The fields are
// those of mortise_sample_args, checked as far as the host can: what lies in device memory is the host's word.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

// An edit of one logit, laid out as mortise_logit_edit, which says what it does.
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
  const LogitEdit* edits;                         // 16-byte aligned; tokens outside of the vocabulary are ignored
  const std::int32_t *edit_begins, *edit_counts;  // begins null: no edits
  const std::int32_t* allowed_index;              // null: all tokens are allowed
  const std::uint32_t* allowed_masks;
  std::int32_t* tokens;
  float* logprobs;  // may be null
  void* scratch;    // sample_scratch() bytes, 16-byte aligned
};

std::size_t sample_scratch(std::int64_t rows, std::int32_t vocab_size);
cudaError_t launch_sample(const SampleArgs& args, cudaStream_t stream);

// What launch_sample does where a row has up to kSmallVocab logits.
constexpr std::int32_t kSmallVocab = 6144;  // as f32 beside a block's other shared memory, of which there are 48 KiB
cudaError_t launch_sample_small(const SampleArgs& args, cudaStream_t stream);

// noise[i] = the noise of token first_id + i. For tests.
cudaError_t launch_noise(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::int32_t n, float* noise,
                         cudaStream_t stream);

}  // namespace mortise::cuda
