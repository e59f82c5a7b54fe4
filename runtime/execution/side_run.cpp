#include "execution/side_run.hpp"

#include <algorithm>
#include <exception>
#include <vector>

#include "execution/rank_group.hpp"
#include "execution/shard.hpp"
#include "mortise/plugin.hpp"

namespace mortise {

SideRun::SideRun(const ShardParts& serving, const ShardParts& candidate, const ExecutionLimits& limits,
                 std::uint64_t generation)
    : limits_(limits),
      wants_prefix_groups_(candidate.prefix_groups),
      serving_device_(serving.device),
      candidate_device_(candidate.device),
      serving_rows_(serving_device_),
      candidate_rows_(candidate_device_) {
  if (serving.model.self == candidate.model.self) {
    pair_ = std::make_unique<AttentionPair>(serving, candidate.attention);
  } else {
    alone_ = std::make_unique<RankGroup>(std::vector<DevicePart>{candidate.device});
    shard_ = std::make_unique<Shard>(candidate, 0, *alone_, generation, limits_);
    shard_->run_largest();
  }
}

SideRun::~SideRun() = default;

const std::optional<Difference>& SideRun::difference() const {
  return pair_ ? pair_->difference() : difference_;
}

void SideRun::begin(mortise_step& step) {
  if (pair_) pair_->begin(step);
}

void SideRun::copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to) {
  if (pair_) return pair_->copy_blocks(from, to);
  if (difference_) return;
  try {
    shard_->copy_blocks(from, to);
  } catch (const std::exception& exception) {
    difference_ = Difference{.what = "copy_blocks", .failure = exception.what()};
  }
}

void SideRun::finish(const StepWork& work, Shard& serving) {
  if (pair_ || difference_) return;
  try {
    compare(work, serving);
  } catch (const std::exception& exception) {
    difference_ = Difference{.what = "a step", .failure = exception.what()};
  }
}

void SideRun::compare(const StepWork& work, Shard& serving) {
  shard_->forward(work);
  const mortise_batch& batch = serving.batch();
  for (std::int64_t first = 0; first < batch.num_logit_rows; first += limits_.max_logit_rows) {
    const std::int64_t count = std::min<std::int64_t>(limits_.max_logit_rows, batch.num_logit_rows - first);
    const Shard::HeadRows a = serving.head_rows(first, count), b = shard_->head_rows(first, count);
    if (!compare_rows(batch, first, a.hidden, b.hidden, "hidden row")) return;
    if (!compare_rows(batch, first, a.logits, b.logits, "logits")) return;
    num_rows_ += static_cast<std::uint64_t>(count);
  }
}

// Compares rows that need logits, from number `first` on. Returns false if they differ.
bool SideRun::compare_rows(const mortise_batch& batch, std::int64_t first, const mortise_tensor& serving,
                           const mortise_tensor& candidate, const char* what) {
  if (serving.dtype != candidate.dtype || serving.shape[1] != candidate.shape[1]) {
    difference_ =
        Difference{.what = "a step",
                   .failure = fmt::format("{}: {} columns of type {}, but {} of {} are needed", what,
                                          candidate.shape[1], candidate.dtype, serving.shape[1], serving.dtype)};
    return false;
  }
  const auto fetch = [](Download& download, const mortise_tensor& tensor) {
    const std::int64_t bytes = dtype_bytes(tensor.dtype);
    const auto size = static_cast<std::size_t>(((tensor.shape[0] - 1) * tensor.stride[0] + tensor.shape[1]) * bytes);
    return HostRows{download.fetch(static_cast<const std::byte*>(tensor.data), size).data(), tensor.shape[1] * bytes,
                    tensor.stride[0] * bytes, tensor.dtype};
  };
  const HostRows a = fetch(serving_rows_, serving), b = fetch(candidate_rows_, candidate);
  const std::optional<ElementAt> at = first_difference(a, b, serving.shape[0]);
  if (!at) return true;
  difference_ = difference_at(a, b, *at, what);
  place_row(batch, batch.logit_rows[first + at->row], *difference_);
  return false;
}

}  // namespace mortise
