// Operations on logits: reductions over the vocabulary, and drawing tokens.
#include "devices/checks/head.hpp"
#include "devices/checks/matrix.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/matrix.hpp"
#include "devices/cuda/ops.hpp"
#include "kernels/cuda/head_reduce.hpp"
#include "kernels/cuda/sample.hpp"

namespace mortise::cuda {
namespace {

constexpr std::int64_t kMaxRows = 65535;  // a grid's second dimension

// REQUIRES: the tensor was checked.
Matrix logits_matrix(const mortise_tensor& tensor, const char* where) {
  const Matrix logits = matrix_of(tensor);
  if (logits.rows > kMaxRows) {
    invalid(where, "logits are " + matrix_text(tensor) + "; this device supports up to " + std::to_string(kMaxRows) +
                       " rows at once");
  }
  return logits;
}

constexpr char kReduce[] = "head_reduce";

constexpr char kSample[] = "sample";

static_assert(sizeof(LogitEdit) == sizeof(mortise_logit_edit));

}  // namespace

mortise_status head_reduce(mortise_device* device, mortise_stream* stream, const mortise_head_reduce_args* args,
                           mortise_error* error) {
  return guard(error, kReduce, [&] {
    const auto in = known(args);
    check_head_reduce(in, kVocabSlice);
    const Matrix logits = logits_matrix(*in.logits, kReduce);
    if (logits.rows == 0) return;
    const cudaStream_t on = native(device, stream);
    const auto columns = static_cast<std::int32_t>(logits.columns);
    HeadReduceArgs out = {};
    out.logits = reinterpret_cast<const float*>(logits.data);
    out.stride = logits.stride;
    out.rows = logits.rows;
    out.columns = columns;
    out.vocab_begin = in.vocab_begin;
    out.first = in.first != 0;
    out.max = in.max;
    out.sum = in.sum;
    out.lse = in.lse;
    out.targets = in.targets;
    out.target_logits = in.target_logits;
    out.ranks = in.ranks;
    out.top_n = in.top_n;
    out.top_ids = in.top_ids;
    out.top_logits = in.top_logits;
    out.scratch = device->scratch.reserve(head_reduce_scratch(logits.rows, columns, in.top_n), on, kReduce);
    check_cuda(launch_head_reduce(out, on), kReduce);
  });
}

mortise_status sample(mortise_device* device, mortise_stream* stream, const mortise_sample_args* args,
                      mortise_error* error) {
  return guard(error, kSample, [&] {
    const auto in = known(args);
    check_sample(in);
    const Matrix logits = logits_matrix(*in.logits, kSample);
    if (logits.rows == 0) return;
    const cudaStream_t on = native(device, stream);
    SampleArgs out = {};
    out.logits = reinterpret_cast<const float*>(logits.data);
    out.stride = logits.stride;
    out.rows = logits.rows;
    out.vocab_size = static_cast<std::int32_t>(logits.columns);
    out.temperatures = in.temperatures;
    out.top_ks = in.top_ks;
    out.top_ps = in.top_ps;
    out.min_ps = in.min_ps;
    out.keys = in.keys;
    out.positions = in.positions;
    out.edits = reinterpret_cast<const LogitEdit*>(in.edits);
    out.edit_begins = in.edit_begins;
    out.edit_counts = in.edit_counts;
    out.allowed_index = in.allowed_index;
    out.allowed_masks = in.allowed_masks;
    out.tokens = in.tokens;
    out.logprobs = in.processed_logprobs;
    out.scratch = device->scratch.reserve(sample_scratch(logits.rows, out.vocab_size), on, kSample);
    check_cuda(launch_sample(out, on), kSample);
  });
}

}  // namespace mortise::cuda
