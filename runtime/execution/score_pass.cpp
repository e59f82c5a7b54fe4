#include "execution/score_pass.hpp"

#include <algorithm>
#include <utility>

namespace mortise {
namespace {

constexpr std::int32_t kHeadStep = 64;  // the head's columns come in multiples of this
// The most windows that the vocabulary is divided into for the targets' logits. More windows mean fewer logits per row,
// but three more device calls each.
constexpr std::int32_t kWindows = 64;

}  // namespace

ScorePass::ScorePass(const ShardParts& parts, HeadPass& head)
    : head_(head),
      vocab_size_(parts.vocab_size),
      slice_(parts.device.value<&mortise_device_table::vocab_slice>("vocab_slice", kHeadStep)),
      window_((parts.vocab_size / kWindows + kHeadStep - 1) / kHeadStep * kHeadStep),
      upload_(parts.device),
      scores_(parts) {}

void ScorePass::launch(const mortise_step& step, const mortise_tensor& hidden, std::vector<Row> rows) {
  std::ranges::stable_sort(rows, {}, &Row::target);
  std::vector<std::int32_t> numbers, targets;
  std::int32_t num_top = 0;
  for (const Row& row : rows) {
    numbers.push_back(row.row);
    targets.push_back(row.target);
    num_top = std::max(num_top, std::min(row.num_top, vocab_size_));
  }
  upload_.clear();
  const std::size_t numbers_at = upload_.put(std::span<const std::int32_t>(numbers));
  const std::size_t targets_at = upload_.put(std::span<const std::int32_t>(targets));
  upload_.upload();
  targets_ = upload_.device<std::int32_t>(targets_at);
  scores_.begin(rows.size(), static_cast<std::size_t>(num_top));
  for (std::size_t first = 0; first < rows.size(); first += std::size_t{kBlockRows}) {
    const std::size_t count = std::min(std::size_t{kBlockRows}, rows.size() - first);
    head_.select(step, hidden, upload_.device<std::int32_t>(numbers_at) + first, static_cast<std::int64_t>(count));
    const Block block = {std::span<const Row>(rows).subspan(first, count), first};
    find_target_logits(step, block);
    reduce_all(step, block);
  }
  scores_.start_download();
  rows_ = std::move(rows);
}

void ScorePass::collect(std::span<TokenInfo> infos) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    TokenInfo& info = infos[rows_[i].index];
    info.id = rows_[i].target;
    scores_.describe(i, static_cast<std::size_t>(rows_[i].num_top), info);
  }
  rows_.clear();
}

void ScorePass::find_target_logits(const mortise_step& step, const Block& block) {
  for (std::size_t first = 0; first < block.rows.size();) {
    const std::int32_t begin = block.rows[first].target / window_ * window_,
                       end = std::min(begin + window_, vocab_size_);
    std::size_t last = first;
    while (last < block.rows.size() && block.rows[last].target < end) ++last;
    mortise_head_reduce_args args = scores_.arrays(block.first + first, targets_ + block.first + first);
    args.first = 1;
    args.max = args.sum = args.lse = args.top_logits = nullptr;
    args.ranks = args.top_ids = nullptr;
    args.top_n = 0;
    const mortise_tensor logits =
        head_.logits(step, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last - first), begin, end);
    scores_.reduce(step, logits, begin, args);
    first = last;
  }
}

void ScorePass::reduce_all(const mortise_step& step, const Block& block) {
  mortise_head_reduce_args args = scores_.arrays(block.first, targets_ + block.first);
  const auto count = static_cast<std::int64_t>(block.rows.size());
  for (std::int32_t begin = 0; begin < vocab_size_; begin += slice_) {
    args.first = begin == 0 ? 1 : 0;
    scores_.reduce(step, head_.logits(step, 0, count, begin, std::min(begin + slice_, vocab_size_)), begin, args);
  }
}

}  // namespace mortise
