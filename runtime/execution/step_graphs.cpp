#include "execution/step_graphs.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

namespace mortise {
namespace {

constexpr std::int32_t kLeastBlocks = 16;
// A bucket is at most this much larger than its rows (row_bucket), and all of that may have to be padding.
static_assert(StepGraphs::kMaxRows / 8 <= ExecutionLimits::kMostPadding);

// 1, 2, 4, 8, then steps of about an eighth of the size: padding costs little, and graphs stay few.
std::int32_t row_bucket(std::int32_t rows) {
  if (rows <= 8) return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(rows)));
  const auto step = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(rows))) / 8;
  const std::int32_t size = std::max(step, 8);
  return (rows + size - 1) / size * size;
}

}  // namespace

std::optional<BatchBucket> StepGraphs::bucket_of(std::span<const RowRun> runs) const {
  if (parts_.graphs == nullptr || !usable_ || limits_.padding_block < 0 || runs.empty()) return std::nullopt;
  std::int32_t rows = 0, longest = 0;
  std::size_t blocks = 0;
  for (const RowRun& run : runs) {
    rows += run.num_rows();
    longest = std::max(longest, run.num_rows());
    blocks = std::max(blocks, run.blocks.size());
  }
  if (longest > 1 + limits_.max_draft_tokens || rows > kMaxRows) return std::nullopt;
  BatchBucket bucket;
  bucket.max_query_len = longest == 1 ? 1 : 1 + limits_.max_draft_tokens;
  // As many sequences as rows can have: a sequence without rows costs nothing, a bucket for each number of them would
  // cost a capture. Each missing row needs a padding sequence that may have it.
  bucket.num_tokens = std::min(row_bucket(rows), limits_.max_batched_tokens);
  bucket.num_seqs = std::min(bucket.num_tokens, limits_.max_batch_seqs());
  const auto seqs = static_cast<std::int32_t>(runs.size());
  bucket.num_tokens = std::min(bucket.num_tokens, rows + (bucket.num_seqs - seqs) * bucket.max_query_len);
  const auto wanted = std::max(static_cast<std::int32_t>(blocks), kLeastBlocks);
  bucket.max_blocks = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(wanted)));
  return bucket;
}

mortise_tensor StepGraphs::run(const mortise_step& step) const {
  mortise_tensor hidden{};
  hidden.struct_size = sizeof hidden;
  parts_.model.call<&mortise_model_table::forward>("forward", &step, &hidden);
  return hidden;
}

mortise_tensor StepGraphs::forward(const mortise_step& step, const std::optional<BatchBucket>& bucket) {
  is_typical_ = !bucket;
  if (!bucket) return run(step);
  if (ran_.insert(*bucket).second) return run(step);
  const auto known = graphs_.find(*bucket);
  is_typical_ = known != graphs_.end();
  const Graph* const graph = known != graphs_.end() ? &known->second : capture(step, *bucket);
  if (graph == nullptr) return run(step);
  mortise_error error = empty_error();
  const mortise_status status = contain_exceptions(
      error, [&] { return parts_.graphs->replay(parts_.device.self, step.stream, graph->captured, &error); });
  if (status != MORTISE_OK) throw PartError(parts_.device.name, "graph replay", status, error);
  ++num_replays_;
  return graph->hidden;
}

// Null if the step cannot be captured: from then on nothing is.
const StepGraphs::Graph* StepGraphs::capture(const mortise_step& step, const BatchBucket& bucket) {
  mortise_error error = empty_error();
  std::string why;
  Graph graph{};
  if (parts_.graphs->begin(parts_.device.self, step.stream, &error) != MORTISE_OK) {
    why = error.message;
  } else {
    try {
      graph.hidden = run(step);
    } catch (const std::exception& exception) {
      why = exception.what();
    }
    // Ends the capture in any case, so that the stream is usable again.
    const mortise_status ended = parts_.graphs->end(parts_.device.self, step.stream, &graph.captured, &error);
    if (why.empty() && ended != MORTISE_OK) why = error.message;
  }
  if (why.empty()) return &graphs_.emplace(bucket, graph).first->second;
  parts_.graphs->destroy(parts_.device.self, graph.captured);
  spdlog::warn("{}: a step of {} rows could not be captured as a graph ({}); steps run operation by operation",
               parts_.device.name, bucket.num_tokens, why);
  usable_ = false;
  return nullptr;
}

StepGraphs::~StepGraphs() {
  if (parts_.device.health->failed()) return;
  for (const auto& [bucket, graph] : graphs_) parts_.graphs->destroy(parts_.device.self, graph.captured);
}

}  // namespace mortise
