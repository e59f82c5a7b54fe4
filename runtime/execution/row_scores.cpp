#include "execution/row_scores.hpp"

#include <algorithm>
#include <cstring>

namespace mortise {
namespace {

std::int32_t integer(float bits) {
  std::int32_t value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

void RowScores::begin(std::size_t num_rows, std::size_t num_top) {
  num_rows_ = num_rows;
  num_top_ = num_top;
  base_ = static_cast<float*>(memory_.reserve(num_rows * (kArrays + 2 * num_top) * sizeof(float)));
}

mortise_head_reduce_args RowScores::arrays(std::size_t first, const std::int32_t* targets) const {
  float* const at = base_ + first;
  mortise_head_reduce_args args{};
  args.struct_size = sizeof args;
  args.targets = targets;
  args.max = at;
  args.sum = at + num_rows_;
  args.target_logits = at + 2 * num_rows_;
  args.ranks = reinterpret_cast<std::int32_t*>(at + 3 * num_rows_);
  args.lse = at + 4 * num_rows_;
  if (num_top_ > 0) {
    float* const ids = base_ + kArrays * num_rows_ + first * num_top_;
    args.top_n = static_cast<std::int32_t>(num_top_);
    args.top_ids = reinterpret_cast<std::int32_t*>(ids);
    args.top_logits = ids + num_rows_ * num_top_;
  }
  return args;
}

void RowScores::reduce(const mortise_step& step, const mortise_tensor& logits, std::int32_t vocab_begin,
                       mortise_head_reduce_args args) const {
  args.logits = &logits;
  args.vocab_begin = vocab_begin;
  parts_.device.call<&mortise_device_table::head_reduce>("head_reduce", step.stream, &args);
}

void RowScores::start_download() {
  download_.start(base_, num_rows_ * (kArrays + 2 * num_top_));
}

void RowScores::describe(std::size_t row, std::size_t num_top, TokenInfo& info) const {
  const auto fetched = download_.data<float>();
  const float lse = fetched[4 * num_rows_ + row];
  info.logprob = fetched[2 * num_rows_ + row] - lse;
  info.rank = integer(fetched[3 * num_rows_ + row]) + 1;
  const auto ids = fetched.subspan(kArrays * num_rows_ + row * num_top_, num_top_);
  const auto logits = fetched.subspan((kArrays + num_top_) * num_rows_ + row * num_top_, num_top_);
  for (std::size_t i = 0; i < std::min(num_top, num_top_); ++i) {
    const std::int32_t id = integer(ids[i]);
    if (id >= 0) info.top.emplace_back(id, logits[i] - lse);
  }
}

}  // namespace mortise
