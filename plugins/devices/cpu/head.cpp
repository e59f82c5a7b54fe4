// Operations on logits: reductions over the vocabulary, drawing tokens and verifying drafts. Threads divide the rows.
#include <algorithm>
#include <limits>

#include "devices/checks/head.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/matrix.hpp"
#include "devices/cpu/ops.hpp"
#include "mortise/numerics.h"

namespace mortise::cpu {
namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

// --- head_reduce ---

constexpr char kReduce[] = "head_reduce";

void begin_row(const mortise_head_reduce_args& args, std::size_t r) {
  if (args.max != nullptr) args.max[r] = kNoLogit, args.sum[r] = 0.0f;
  if (args.ranks != nullptr) {
    args.ranks[r] = 0;
  } else if (args.target_logits != nullptr) {
    args.target_logits[r] = kNoLogit;
  }
  const auto n = static_cast<std::size_t>(args.top_n);
  std::fill_n(args.top_ids + r * n, n, -1);
  std::fill_n(args.top_logits + r * n, n, kNoLogit);
}

void reduce_row(const HeadKernels& kernels, const mortise_head_reduce_args& args, const Matrix& logits, std::size_t r) {
  const float* row = logits.row_of<float>(r);
  const std::int32_t begin = args.vocab_begin;
  if (args.first != 0) begin_row(args, r);
  if (args.max != nullptr) {
    const float* const next = r + 1 < logits.rows ? logits.row_of<float>(r + 1) : row;
    kernels.log_sum_exp(row, logits.columns, next, &args.max[r], &args.sum[r]);
    if (args.lse != nullptr) kernels.log_of_sum(args.max[r], args.sum[r], &args.lse[r]);
  }
  if (args.targets != nullptr && args.target_logits != nullptr) {
    const std::int64_t column = std::int64_t{args.targets[r]} - begin;
    if (args.ranks == nullptr) {
      const bool here = column >= 0 && column < static_cast<std::int64_t>(logits.columns);
      if (here && args.targets[r] >= 0) kernels.clean(row + column, &args.target_logits[r]);
    } else if (args.targets[r] >= 0) {
      args.ranks[r] += kernels.count_before(row, logits.columns, begin, args.targets[r], args.target_logits[r]);
    }
  }
  const auto n = static_cast<std::size_t>(args.top_n);
  if (n > 0) kernels.top_n(row, logits.columns, begin, n, args.top_ids + r * n, args.top_logits + r * n);
}

// --- sample ---

constexpr char kSample[] = "sample", kVerify[] = "verify_drafts";

static_assert(sizeof(LogitEdit) == sizeof(mortise_logit_edit));

void check_edits(const mortise_sample_args& args, const Matrix& logits, const char* where) {
  if (args.edit_begins == nullptr) return;
  for (std::size_t r = 0; r < logits.rows; ++r) {
    const std::int32_t begin = args.edit_begins[r], count = args.edit_counts[r];
    if (begin < 0 || count < 0) {
      invalid(where, "row " + std::to_string(r) + " has " + std::to_string(count) + " edits from " +
                         std::to_string(begin) + " on");
    }
    for (std::int32_t i = begin; i < begin + count; ++i) {
      const std::int32_t token = args.edits[i].token;
      if (token >= 0 && static_cast<std::size_t>(token) < logits.columns) continue;
      invalid(where, "edits[" + std::to_string(i) + "] of row " + std::to_string(r) + " is for token " +
                         std::to_string(token) + "; expected one below " + std::to_string(logits.columns));
    }
  }
}

// Checks that each index is -1 or below `end`.
void check_indices(const std::int32_t* indices, std::size_t rows, std::size_t end, const char* name) {
  for (std::size_t r = 0; r < rows; ++r) {
    if (indices[r] == -1 || (indices[r] >= 0 && static_cast<std::size_t>(indices[r]) < end)) continue;
    invalid(kVerify, std::string(name) + "[" + std::to_string(r) + "] is " + std::to_string(indices[r]) +
                         "; expected -1, or less than " + std::to_string(end));
  }
}

SampleRow sample_row(const mortise_sample_args& args, const Matrix& logits, std::size_t r) {
  SampleRow row = {};
  row.logits = logits.row_of<float>(r);
  row.vocab_size = logits.columns;
  row.temperature = args.temperatures[r];
  row.top_k = args.top_ks[r];
  row.top_p = args.top_ps[r];
  row.min_p = args.min_ps[r];
  row.key = args.keys[r];
  row.position = static_cast<std::uint64_t>(args.positions[r]);
  if (args.edit_begins != nullptr) {
    row.num_edits = static_cast<std::size_t>(args.edit_counts[r]);
    row.edits = reinterpret_cast<const LogitEdit*>(args.edits) + args.edit_begins[r];
  }
  if (args.allowed_index != nullptr && args.allowed_index[r] >= 0) {
    row.allowed = args.allowed_masks + static_cast<std::size_t>(args.allowed_index[r]) * ((logits.columns + 31) / 32);
  }
  return row;
}

// The scratch of all threads, one after the other. A value; borrows the device's scratch.
class SampleMemory {
 public:
  SampleMemory(mortise_device& device, std::size_t vocab_size)
      : row_bytes_(round_up(vocab_size * sizeof(float))),
        candidate_bytes_(round_up((vocab_size + 16) * sizeof(SampleCandidate))),
        thread_bytes_(row_bytes_ + candidate_bytes_ + round_up(vocab_size * sizeof(std::uint64_t))),
        memory_(static_cast<std::byte*>(
            device.scratch.reserve(thread_bytes_ * static_cast<std::size_t>(device.pool.num_threads())))) {}

  SampleScratch of(std::int32_t thread) const {
    std::byte* const first = memory_ + static_cast<std::size_t>(thread) * thread_bytes_;
    return {reinterpret_cast<float*>(first), reinterpret_cast<SampleCandidate*>(first + row_bytes_)};
  }
  // [vocab_size]
  std::uint64_t* weights_of(std::int32_t thread) const {
    std::byte* const first = memory_ + static_cast<std::size_t>(thread) * thread_bytes_;
    return reinterpret_cast<std::uint64_t*>(first + row_bytes_ + candidate_bytes_);
  }

 private:
  static std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  std::size_t row_bytes_, candidate_bytes_, thread_bytes_;
  std::byte* memory_;
};

}  // namespace

mortise_status head_reduce(mortise_device* device, mortise_stream*, const mortise_head_reduce_args* in,
                           mortise_error* error) {
  return guard(error, kReduce, [&] {
    const auto args = known(in);
    check_head_reduce(args, static_cast<std::int32_t>(kVocabSlice));
    const Matrix logits = matrix_of(*args.logits);
    device->pool.for_each(static_cast<std::int32_t>(logits.rows), [&](std::int32_t task, std::int32_t) {
      reduce_row(device->kernels.head, args, logits, static_cast<std::size_t>(task));
    });
  });
}

mortise_status sample(mortise_device* device, mortise_stream*, const mortise_sample_args* in, mortise_error* error) {
  return guard(error, kSample, [&] {
    const auto args = known(in);
    check_sample(args, kSample);
    const Matrix logits = matrix_of(*args.logits);
    if (logits.rows == 0) return;
    check_edits(args, logits, kSample);
    const SampleMemory memory(*device, logits.columns);
    device->pool.for_each(static_cast<std::int32_t>(logits.rows), [&](std::int32_t task, std::int32_t thread) {
      const auto r = static_cast<std::size_t>(task);
      float* const logprob = args.processed_logprobs == nullptr ? nullptr : args.processed_logprobs + r;
      device->kernels.sampling.sample(sample_row(args, logits, r), memory.of(thread), &args.tokens[r], logprob);
    });
  });
}

mortise_status verify_drafts(mortise_device* device, mortise_stream*, const mortise_verify_drafts_args* in,
                             mortise_error* error) {
  return guard(error, kVerify, [&] {
    const auto args = known(in);
    const mortise_sample_args rows = checked_rows(args);
    const Matrix logits = matrix_of(*rows.logits);
    if (logits.rows == 0) return;
    check_edits(rows, logits, kVerify);
    check_indices(args.drafts, logits.rows, logits.columns, "drafts");
    Matrix distributions = {};
    if (args.distribution_rows != nullptr) {
      distributions = matrix_of(*args.distributions);
      check_indices(args.distribution_rows, logits.rows, distributions.rows, "distribution_rows");
    }
    const SampleMemory memory(*device, logits.columns);
    device->pool.for_each(static_cast<std::int32_t>(logits.rows), [&](std::int32_t task, std::int32_t thread) {
      const auto r = static_cast<std::size_t>(task);
      if (args.drafts[r] < 0 || !(rows.temperatures[r] > 0)) return;
      std::uint64_t* const weights = memory.weights_of(thread);
      device->kernels.sampling.weigh(sample_row(rows, logits, r), memory.of(thread), weights);
      const float* distribution = nullptr;
      if (args.distribution_rows != nullptr && args.distribution_rows[r] >= 0) {
        distribution = distributions.row_of<float>(static_cast<std::size_t>(args.distribution_rows[r]));
      }
      rows.tokens[r] = mortise_verify_draft(weights, distribution, rows.logits->shape[1], args.drafts[r], rows.keys[r],
                                            static_cast<std::uint64_t>(rows.positions[r]));
    });
  });
}

}  // namespace mortise::cpu
