// Operations on logits: reductions over the vocabulary, drawing tokens and verifying drafts.
#include "devices/checks/head.hpp"
#include "devices/checks/matrix.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/matrix.hpp"
#include "devices/cuda/ops.hpp"
#include "kernels/cuda/head_reduce.hpp"
#include "kernels/cuda/sample.hpp"
#include "kernels/cuda/verify_drafts.hpp"

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

constexpr char kSample[] = "sample", kVerify[] = "verify_drafts";

static_assert(sizeof(LogitEdit) == sizeof(mortise_logit_edit));

// All but `scratch`.
SampleArgs sample_args(const mortise_sample_args& in, const Matrix& logits) {
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
  return out;
}

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
    check_sample(in, kSample);
    const Matrix logits = logits_matrix(*in.logits, kSample);
    if (logits.rows == 0) return;
    const cudaStream_t on = native(device, stream);
    SampleArgs out = sample_args(in, logits);
    out.scratch = device->scratch.reserve(sample_scratch(logits.rows, out.vocab_size), on, kSample);
    check_cuda(launch_sample(out, on), kSample);
  });
}

mortise_status verify_drafts(mortise_device* device, mortise_stream* stream, const mortise_verify_drafts_args* args,
                             mortise_error* error) {
  return guard(error, kVerify, [&] {
    const auto in = known(args);
    const mortise_sample_args rows = checked_rows(in);
    const Matrix logits = logits_matrix(*rows.logits, kVerify);
    if (logits.rows == 0) return;
    const cudaStream_t on = native(device, stream);
    VerifyArgs out = {};
    out.rows = sample_args(rows, logits);
    out.rows.logprobs = nullptr;
    out.drafts = in.drafts;
    if (in.distribution_rows != nullptr) {
      const Matrix distributions = matrix_of(*in.distributions);
      out.distributions = reinterpret_cast<const float*>(distributions.data);
      out.distribution_stride = distributions.stride;
      out.distribution_rows = in.distribution_rows;
    }
    out.rows.scratch = device->scratch.reserve(verify_drafts_scratch(logits.rows, out.rows.vocab_size), on, kVerify);
    check_cuda(launch_verify_drafts(out, on), kVerify);
  });
}

}  // namespace mortise::cuda
