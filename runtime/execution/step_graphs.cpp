#include "execution/step_graphs.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

namespace mortise {
namespace {

constexpr std::int32_t kMinBlocks = 16;
// A step with prompts is captured if each prompt has at most kShortPrompt rows and its sequence at most kShortContext
// tokens. Such prompts take little time, and launching their operations one by one would take longer. Attention has
// faster kernels for longer prompts.
constexpr std::int32_t kShortPrompt = 64, kShortContext = 512;
static_assert(kShortPrompt >= ExecutionLimits::kMaxPadding);
// A bucket exceeds its rows by at most an eighth (row_bucket), and padding rows must be able to fill all of it.
static_assert(StepGraphs::kMaxRows / 8 <= ExecutionLimits::kMaxPadding);

// Rounds up to 1, 2, 4, 8, and then in steps of about an eighth of the size, so that padding costs little and graphs
// stay few.
std::int32_t row_bucket(std::int32_t rows) {
  if (rows <= 8) return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(rows)));
  const auto step = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(rows))) / 8;
  const std::int32_t size = std::max(step, 8);
  return (rows + size - 1) / size * size;
}

}  // namespace

std::optional<BatchBucket> StepGraphs::bucket_of(std::span<const RowRun> runs) const {
  if (parts_.graphs == nullptr || !usable_ || limits_.padding_block < 0 || runs.empty()) return std::nullopt;
  const std::int32_t verified = 1 + limits_.max_drafts;
  std::int32_t rows = 0, longest = 0;
  std::size_t blocks = 0;
  for (const RowRun& run : runs) {
    if (run.num_rows() > verified && run.first + run.num_rows() > kShortContext) return std::nullopt;
    rows += run.num_rows();
    longest = std::max(longest, run.num_rows());
    blocks = std::max(blocks, run.blocks.size());
  }
  // An attention without multi-query rows has special kernels for all prompts.
  const std::int32_t most = limits_.batch_expansion ? verified : std::max(verified, kShortPrompt);
  if (longest > most || rows > kMaxRows) return std::nullopt;
  BatchBucket bucket;
  bucket.max_query_len = longest == 1 ? 1 : longest <= verified ? verified : kShortPrompt;
  // The bucket has as many sequences as its rows allow. A sequence without rows costs nothing, but a bucket for each
  // number of sequences would cost a capture. Each missing row needs a padding sequence.
  bucket.num_tokens = std::min(row_bucket(rows), limits_.max_batched_tokens);
  const std::int32_t most_seqs = longest == 1 ? limits_.max_batch_runs() : limits_.max_padded_seqs(verified);
  bucket.num_seqs = std::min(bucket.num_tokens, most_seqs);
  const auto seqs = static_cast<std::int32_t>(runs.size());
  bucket.num_tokens = std::min(bucket.num_tokens, rows + (bucket.num_seqs - seqs) * bucket.max_query_len);
  const auto wanted = std::max(static_cast<std::int32_t>(blocks), kMinBlocks);
  bucket.max_blocks = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(wanted)));
  return bucket;
}

namespace {

// Checks the hidden rows that a model's forward returned. Returns INTERNAL with the reason if they cannot belong to
// `num_tokens` rows. `hidden_size`: 0 if it is not known.
mortise_status check_hidden(const mortise_tensor& hidden, std::int32_t num_tokens, std::int32_t hidden_size,
                            mortise_error& error) {
  const bool has_rows = hidden.data != nullptr && hidden.ndim == 2 && hidden.shape[0] >= num_tokens;
  const bool has_columns = hidden.shape[1] > 0 && (hidden_size == 0 || hidden.shape[1] == hidden_size);
  const bool is_dense = hidden.stride[0] >= hidden.shape[1] && hidden.stride[1] == 1;
  const bool has_type = hidden.dtype == MORTISE_BF16 || hidden.dtype == MORTISE_F32;
  if (has_rows && has_columns && is_dense && has_type) return MORTISE_OK;
  const auto end = fmt::format_to_n(
      error.message, sizeof error.message - 1,
      "returned OK, but no hidden rows: data {}, type {}, {} dimensions of {} x {} with strides {}, {}; {} x {} of "
      "bf16 or f32 are needed",
      fmt::ptr(hidden.data), hidden.dtype, hidden.ndim, hidden.shape[0], hidden.shape[1], hidden.stride[0],
      hidden.stride[1], num_tokens, hidden_size);
  *end.out = '\0';
  return MORTISE_INTERNAL;
}

}  // namespace

mortise_tensor StepGraphs::run(const mortise_step& step) const {
  mortise_tensor hidden{};
  hidden.struct_size = sizeof hidden;
  parts_.model.perform("forward", [&](mortise_error* error) {
    const mortise_status status = parts_.model.api->forward(parts_.model.self, &step, &hidden, error);
    return status == MORTISE_OK ? check_hidden(hidden, step.batch->num_tokens, parts_.hidden_size, *error) : status;
  });
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
  parts_.device.perform("graph replay", [&](mortise_error* error) {
    return parts_.graphs->replay(parts_.device.self, step.stream, graph->captured, error);
  });
  ++num_replays_;
  return graph->hidden;
}

// Returns null if the step cannot be captured; no further capture is tried then.
const StepGraphs::Graph* StepGraphs::capture(const mortise_step& step, const BatchBucket& bucket) {
  const DevicePart& device = parts_.device;
  const auto begin = [&](mortise_error* error) { return parts_.graphs->begin(device.self, step.stream, error); };
  std::string why;
  Graph graph{.table = parts_.graphs, .captured = nullptr, .hidden = {}};
  if (const CallResult begun = device.attempt("graph begin", begin); !begun.ok()) {
    why = begun.error.message;
  } else {
    try {
      graph.hidden = run(step);
    } catch (const std::exception& exception) {
      why = exception.what();
    }
    // The capture is ended after a failure too, so that the stream stays usable.
    const CallResult ended = device.attempt("graph end", [&](mortise_error* error) {
      return parts_.graphs->end(device.self, step.stream, &graph.captured, error);
    });
    if (why.empty() && !ended.ok()) why = ended.error.message;
  }
  if (why.empty()) return &graphs_.emplace(bucket, graph).first->second;
  destroy(graph);
  spdlog::warn("{}: a step of {} rows could not be captured as a graph ({}); steps run operation by operation",
               device.name, bucket.num_tokens, why);
  usable_ = false;
  return nullptr;
}

void StepGraphs::destroy(const Graph& graph) const {
  parts_.device.value_of("graph destroy", 0,
                         [&] { return graph.table->destroy(parts_.device.self, graph.captured), 0; });
}

void StepGraphs::clear() {
  for (const auto& [bucket, graph] : graphs_) destroy(graph);
  graphs_.clear();
  ran_.clear();
  usable_ = true;
  num_replays_ = 0;
}

StepGraphs::~StepGraphs() {
  for (const auto& [bucket, graph] : graphs_) destroy(graph);
}

}  // namespace mortise
