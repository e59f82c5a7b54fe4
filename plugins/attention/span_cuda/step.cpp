// The calls of a step: the plan and its upload, append and attention of a layer, and copies of blocks.
#include <algorithm>
#include <array>
#include <cstring>

#include "attention/span_cuda/attention.hpp"

namespace mortise::span_cuda {

using cuda::Bf16Bits;

// Checks that the kernels can read the tensor 16 bytes at a time.
AttentionHeads SpanAttention::heads(const mortise_tensor& tensor, const char* where, const char* name,
                                    int32_t num_heads, int64_t num_rows) const {
  const AttentionHeads heads = kv_.heads(tensor, where, name, num_heads, num_rows);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0 || heads.row_stride % 8 != 0 ||
      heads.head_stride % 8 != 0) {
    invalid(where, std::string(name) + " must have rows and heads that begin at multiples of 16 bytes");
  }
  return heads;
}

Bf16Bits* SpanAttention::layer_memory(int32_t layer) const {
  return reinterpret_cast<Bf16Bits*>(kv_.data()) + static_cast<std::size_t>(layer) * layout_.layer_elements;
}

cudaStream_t SpanAttention::stream(const mortise_step& step) const {
  return static_cast<cudaStream_t>(table_->stream_native(device_, step.stream));
}

void SpanAttention::plan(const mortise_step& step) {
  if (!active_) throw Failure(MORTISE_FAILED_PRECONDITION, "plan", "the instance is not active");
  const mortise_batch batch = known(step.batch);
  kv_.clear_planned();
  if (batch.num_tokens > max_tokens_ || batch.num_seqs > max_seqs_) {
    invalid("plan", "a batch of " + std::to_string(batch.num_tokens) + " rows of " + std::to_string(batch.num_seqs) +
                        " sequences; activated for " + std::to_string(max_tokens_) + " of " +
                        std::to_string(max_seqs_));
  }
  kv_.check_batch(batch);
  if (sharing_ == Sharing::kPrefixGroups) kv_.check_groups(batch);
  PlanShape shape = shape_;
  shape.num_workers = decode_blocks(batch);
  // A captured step launches the same kernels for every batch of its bucket.
  shape.prefill = (batch.flags & MORTISE_BATCH_BUCKET) == 0;
  shape.whole_tiles = has_whole_tiles(batch);
  for (WindowPlan& plan : plans_) {
    shape.window = plan.window;
    make_plan(batch, shape, plan.plan);
    const auto runs = static_cast<int64_t>(plan.plan.runs.size() + plan.plan.prefill.size());
    const auto merges = static_cast<int64_t>(plan.plan.merges.size());
    if (runs > max_runs(shape, max_tokens_, max_seqs_) || merges > max_merges(shape, max_tokens_, max_seqs_)) {
      throw Failure(MORTISE_INTERNAL, "plan", "more runs or merges than there is room for");
    }
  }
  upload(step);
  kv_.set_planned(batch);
}

// Writes the plan in the form that the kernels read, and returns the ranges of it that must be copied.
std::vector<SpanAttention::ByteRange> SpanAttention::write_plan(const Plan& plan, std::byte* to) const {
  constexpr std::size_t kGap = 32 << 10;  // bytes; smaller gaps are copied too, because one more copy would take longer
  std::vector<ByteRange> ranges;
  const auto put = [&](std::size_t at, const auto& items) {
    const std::size_t end = at + items.size() * sizeof items[0];
    if (items.empty()) return end;
    std::memcpy(to + at, items.data(), end - at);
    if (ranges.empty() || at - ranges.back().end > kGap) ranges.push_back({at, at});
    ranges.back().end = end;
    return end;
  };
  put(0, plan.worker_begin);
  put(room_.block_begin, plan.block_begin);
  put(room_.counts, std::array{merge_counts(plan, dims().head_dim)});
  put(room_.merges, plan.merges);
  put(put(room_.runs, plan.runs), plan.prefill);
  put(room_.shared_runs, plan.shared_runs);
  put(room_.shared_rows, plan.shared_rows);
  return ranges;
}

void SpanAttention::upload(const mortise_step& step) {
  Staging& staging = staging_[next_staging_];
  next_staging_ = (next_staging_ + 1) % staging_.size();
  mortise_error error = make_error();
  if (staging.used) check(table_->event_synchronize(device_, staging.event, &error), error);
  staging.used = false;
  for (const WindowPlan& plan : plans_) {
    std::byte* const from = staging.memory + plan.offset;
    for (const ByteRange& range : write_plan(plan.plan, from)) {
      check(table_->copy(device_, step.stream, work_.bytes() + plan.offset + range.begin, from + range.begin,
                         range.end - range.begin, &error),
            error);
    }
  }
  check(table_->event_record(device_, staging.event, step.stream, &error), error);
  staging.used = true;
}

const Bf16Bits* SpanAttention::norm_weight(const mortise_weight* weight) const {
  if (weight == nullptr) return nullptr;
  int64_t n = 0;
  int32_t dtype = 0;
  const void* data = table_->vector_weight(device_, weight, &n, &dtype);
  if (data == nullptr || n != dims().head_dim || dtype != MORTISE_BF16) {
    invalid("append", "q_norm and k_norm must be bf16 vectors of head_dim " + std::to_string(dims().head_dim));
  }
  return static_cast<const Bf16Bits*>(data);
}

void SpanAttention::append(const mortise_step& step, const mortise_append_args& args) {
  kv_.require_planned(step, "append", args.layer);
  if (args.q == nullptr || args.k == nullptr || args.v == nullptr) invalid("append", "q, k and v must be given");
  const mortise_batch batch = known(step.batch);
  const AttentionHeads q = heads(known(args.q), "append", "q", dims().num_heads, batch.num_tokens);
  const AttentionHeads k = heads(known(args.k), "append", "k", dims().num_kv_heads, batch.num_tokens);
  const AttentionHeads v = heads(known(args.v), "append", "v", dims().num_kv_heads, batch.num_tokens);
  cuda::SpanAppend work{};
  work.q = static_cast<Bf16Bits*>(q.data), work.q_row_stride = q.row_stride, work.q_head_stride = q.head_stride;
  work.k = static_cast<Bf16Bits*>(k.data), work.k_row_stride = k.row_stride, work.k_head_stride = k.head_stride;
  work.v = static_cast<Bf16Bits*>(v.data), work.v_row_stride = v.row_stride, work.v_head_stride = v.head_stride;
  work.num_tokens = batch.num_tokens;
  work.num_heads = dims().num_heads;
  work.positions = batch.device_positions;
  work.slots = batch.device_slot_mapping;
  const mortise_rope rope = kv_.rope(args);
  if (rope.rotary_dim > 0) work.cos = rope.cos, work.sin = rope.sin;
  work.rotary_dim = rope.rotary_dim;
  work.interleaved = rope.interleaved != 0;
  work.q_norm = norm_weight(args.q_norm);
  work.k_norm = norm_weight(args.k_norm);
  work.eps = args.norm_eps;
  work.kv = layer_memory(args.layer);
  work.layout = layout_;
  check_cuda(cuda::span_append(work, stream(step)), "append");
}

void SpanAttention::run(const mortise_step& step, int32_t layer, const mortise_tensor& q_tensor,
                        const mortise_tensor& out_tensor) {
  kv_.require_planned(step, "run", layer);
  const mortise_batch batch = known(step.batch);
  const AttentionHeads q = heads(q_tensor, "run", "q", dims().num_heads, batch.num_tokens);
  const AttentionHeads out = heads(out_tensor, "run", "out", dims().num_heads, batch.num_tokens);
  const WindowPlan& window = plans_[kv_.window_index(layer)];
  const Plan& plan = window.plan;
  const std::byte* const work = work_.bytes() + window.offset;
  cuda::SpanArgs args{};
  args.q = static_cast<const Bf16Bits*>(q.data), args.q_row_stride = q.row_stride, args.q_head_stride = q.head_stride;
  args.out = static_cast<Bf16Bits*>(out.data), args.out_row_stride = out.row_stride,
  args.out_head_stride = out.head_stride;
  args.kv = layer_memory(layer);
  args.block_table = batch.device_block_table;
  args.layout = layout_;
  args.heads_per_kv_head = dims().num_heads / dims().num_kv_heads;
  args.window = window.window;
  args.scale = scale_;
  args.partials = static_cast<float*>(partials_.get());
  args.partial_stats = reinterpret_cast<float2*>(args.partials + partial_rows_ * dims().head_dim);

  // Launches of a bucket may be captured, so they must be the same for every batch.
  const bool bucket = (batch.flags & MORTISE_BATCH_BUCKET) != 0;
  if (bucket || !plan.runs.empty()) {
    check_cuda(kernels_->decode(args, span_work(plan, work, batch), stream(step)), "run");
  }
  if ((bucket && !has_whole_tiles(batch)) || !plan.merges.empty()) {
    const auto* const merges = reinterpret_cast<const cuda::SpanMerge*>(work + room_.merges);
    const auto* const counts = reinterpret_cast<const cuda::SpanMergeCounts*>(work + room_.counts);
    check_cuda(cuda::span_merge(args, merges, counts, num_multiprocessors_ * 4, stream(step)), "run");
  }
  const auto* const prefill = reinterpret_cast<const cuda::SpanRun*>(work + room_.runs) + plan.runs.size();
  const auto num_prefill = static_cast<int32_t>(plan.prefill.size());
  check_cuda(kernels_->prefill(args, prefill, num_prefill, num_multiprocessors_, stream(step)), "run");
}

// Returns whether no tile of a captured step is cut, so that it launches no merge. A worker that goes through two spans
// takes less time than the merge and its hand-over.
bool SpanAttention::has_whole_tiles(const mortise_batch& batch) const {
  constexpr int64_t kWholeSpans = 2;
  return sharing_ == Sharing::kNone && (batch.flags & MORTISE_BATCH_BUCKET) != 0 &&
         ceil_div(std::max(batch.max_seq_len, 1), cuda::kSpan) <= kWholeSpans;
}

// Returns how many thread blocks of the decode kernel to launch. A step of very few tiles gets only blocks that can
// have work. The other multiprocessors are then free, so the kernels that follow begin before attention ends: a step of
// the demo model at batch 1 takes 213 us instead of 229. More blocks would gain nothing, and with large models they
// would lose: weights that following kernels load early would delay K and V. All batches of a bucket get the same
// number.
int32_t SpanAttention::decode_blocks(const mortise_batch& batch) const {
  constexpr int64_t kFewRows = 16;
  const int64_t rows = int64_t{std::max(batch.num_tokens, 1)} * dims().num_heads;
  return has_whole_tiles(batch) && rows <= kFewRows ? static_cast<int32_t>(rows) : shape_.num_workers;
}

// Returns the decode kernel's lists. A bucket of several sequences always has room for shared spans, even if this batch
// shares none.
cuda::SpanWork SpanAttention::span_work(const Plan& plan, const std::byte* work, const mortise_batch& batch) const {
  cuda::SpanWork lists{};
  lists.worker_begin = reinterpret_cast<const int32_t*>(work);
  lists.runs = reinterpret_cast<const cuda::SpanRun*>(work + room_.runs);
  lists.num_blocks = decode_blocks(batch);
  lists.shared.block_begin = reinterpret_cast<const int32_t*>(work + room_.block_begin);
  lists.shared.runs = reinterpret_cast<const cuda::SharedRun*>(work + room_.shared_runs);
  lists.shared.rows = reinterpret_cast<const cuda::SharedRow*>(work + room_.shared_rows);
  const bool bucket = (batch.flags & MORTISE_BATCH_BUCKET) != 0 && batch.num_seqs > 1;
  if (bucket || !plan.shared_runs.empty()) lists.shared.num_blocks = shape_.num_shared_blocks;
  return lists;
}

void SpanAttention::copy_blocks(mortise_stream* stream, const int32_t* from, const int32_t* to, int32_t num_blocks) {
  kv_.check_copies(from, to, num_blocks);
  const std::size_t bytes = kv_.block_bytes();
  for (int32_t i = 0; i < num_blocks; ++i) {
    mortise_error error = make_error();
    check(table_->copy(device_, stream, kv_.data() + static_cast<std::size_t>(to[i]) * bytes,
                       kv_.data() + static_cast<std::size_t>(from[i]) * bytes, bytes, &error),
          error);
  }
}

}  // namespace mortise::span_cuda
