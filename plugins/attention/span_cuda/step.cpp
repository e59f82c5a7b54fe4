// What happens in a step: the plan and its upload, append and attention of a layer; and copies of blocks.
#include <algorithm>
#include <array>
#include <cstring>

#include "attention/span_cuda/attention.hpp"

namespace mortise::span_cuda {

using cuda::Bf16Bits;

SpanAttention::Heads SpanAttention::as_heads(const mortise_tensor& tensor, const char* where, const char* name,
                                             int32_t num_heads, int64_t num_rows) const {
  const auto text = [&](const std::string& why) { return std::string(name) + " " + why; };
  if (tensor.dtype != MORTISE_BF16) {
    invalid(where, text("has dtype code " + std::to_string(tensor.dtype) + ", attention on cuda serves bf16"));
  }
  const bool shape = tensor.ndim == 3 && tensor.shape[0] == num_rows && tensor.shape[1] == num_heads &&
                     tensor.shape[2] == dims_.head_dim;
  if (!shape) {
    invalid(where, text("must be [" + std::to_string(num_rows) + ", " + std::to_string(num_heads) + ", " +
                        std::to_string(dims_.head_dim) + "], is [" + std::to_string(tensor.shape[0]) + ", " +
                        std::to_string(tensor.shape[1]) + ", " + std::to_string(tensor.shape[2]) + "] of " +
                        std::to_string(tensor.ndim) + " dimensions"));
  }
  if (tensor.stride[2] != 1 || tensor.stride[0] < 0 || tensor.stride[1] < 0) {
    invalid(where, text("must have neighbouring elements within a head"));
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0 || tensor.stride[0] % 8 != 0 ||
      tensor.stride[1] % 8 != 0) {
    invalid(where, text("must have rows and heads that begin at multiples of 16 bytes"));
  }
  const int64_t elements =
      num_rows == 0 ? 0 : (num_rows - 1) * tensor.stride[0] + (num_heads - 1) * tensor.stride[1] + dims_.head_dim;
  if (elements > 0 && (tensor.data == nullptr || static_cast<uint64_t>(elements) * sizeof(Bf16Bits) > tensor.bytes)) {
    invalid(where, text("does not fit its " + std::to_string(tensor.bytes) + " bytes"));
  }
  return {static_cast<Bf16Bits*>(tensor.data), tensor.stride[0], tensor.stride[1]};
}

void SpanAttention::check_sequence(const mortise_batch& batch, int32_t seq) const {
  const auto wrong = [&](const std::string& why) { invalid("plan", "sequence " + std::to_string(seq) + ": " + why); };
  const int32_t begin = batch.cu_seqlens_q[seq], end = batch.cu_seqlens_q[seq + 1], seq_len = batch.seq_lens[seq];
  if (begin > end || begin < 0 || end > batch.num_tokens) wrong("cu_seqlens_q does not ascend to num_tokens");
  if (seq_len == 0) return;
  if (seq_len < end - begin) wrong("seq_len is less than its rows");
  const int32_t needed = (seq_len - 1) / layout_.block_size + 1;
  if (needed > batch.max_blocks) wrong("seq_len is beyond its row of block_table");
  const int32_t* blocks = batch.block_table + static_cast<std::ptrdiff_t>(seq) * batch.max_blocks;
  for (int32_t i = 0; i < needed; ++i) {
    if (blocks[i] < 0 || blocks[i] >= num_blocks_) wrong("block " + std::to_string(blocks[i]) + " is not in the pool");
  }
  for (int32_t row = begin; row < end; ++row) {
    const int32_t position = seq_len - (end - row);
    if (batch.positions[row] != position) wrong("positions do not end at seq_len - 1");
    const int64_t slot = static_cast<int64_t>(blocks[position / layout_.block_size]) * layout_.block_size +
                         position % layout_.block_size;
    if (batch.slot_mapping[row] != slot) wrong("slot_mapping and block_table differ");
  }
}

void SpanAttention::check_batch(const mortise_batch& batch) const {
  if (batch.block_size != layout_.block_size) {
    invalid("plan", "the batch has block_size " + std::to_string(batch.block_size) + ", the cache " +
                        std::to_string(layout_.block_size));
  }
  if (batch.num_tokens > max_tokens_ || batch.num_seqs > max_seqs_) {
    invalid("plan", "a batch of " + std::to_string(batch.num_tokens) + " rows of " + std::to_string(batch.num_seqs) +
                        " sequences; activated for " + std::to_string(max_tokens_) + " of " +
                        std::to_string(max_seqs_));
  }
  if (batch.cu_seqlens_q[0] != 0 || batch.cu_seqlens_q[batch.num_seqs] != batch.num_tokens) {
    invalid("plan", "cu_seqlens_q does not go from 0 to num_tokens");
  }
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) check_sequence(batch, seq);
  if (sharing_ == Sharing::kPrefixGroups) check_groups(batch);
  // Padding rows have no position that could be checked: their slots are.
  const int64_t slots = static_cast<int64_t>(num_blocks_) * layout_.block_size;
  for (int32_t row = 0; row < batch.num_tokens; ++row) {
    if (batch.slot_mapping[row] >= slots)
      invalid("plan", "row " + std::to_string(row) + ": its slot is not in the pool");
  }
}

// What is wrong here would be read by the wrong sequence, and nobody would notice.
void SpanAttention::check_groups(const mortise_batch& batch) const {
  if (batch.num_groups > 0 && batch.group_parents == nullptr) invalid("plan", "group_parents must be given");
  std::vector<int32_t> group_of(static_cast<std::size_t>(batch.num_seqs), -1);  // the innermost so far
  for (int32_t g = 0; g < batch.num_groups; ++g) {
    const auto wrong = [&](const std::string& why) { invalid("plan", "group " + std::to_string(g) + ": " + why); };
    const int32_t begin = batch.group_offsets[g], end = batch.group_offsets[g + 1];
    const int32_t parent = batch.group_parents[g], tokens = batch.group_shared_tokens[g];
    if (begin < 0 || begin > end) wrong("group_offsets does not ascend from 0");
    if (parent < -1 || parent >= g) wrong("its parent " + std::to_string(parent) + " does not come before it");
    const int32_t before = parent < 0 ? 0 : batch.group_shared_tokens[parent];
    if (tokens % layout_.block_size != 0 || tokens < before) {
      wrong(std::to_string(tokens) + " shared tokens are not whole blocks, or fewer than its parent's");
    }
    // Of its parent the blocks have been compared.
    const int32_t from = before / layout_.block_size, to = tokens / layout_.block_size;
    const int32_t* first = nullptr;
    for (int32_t i = begin; i < end; ++i) {
      const int32_t seq = batch.group_seqs[i];
      const auto wrong_seq = [&](const char* why) { wrong("sequence " + std::to_string(seq) + why); };
      if (seq < 0 || seq >= batch.num_seqs) wrong_seq(" is not in the batch");
      int32_t& of = group_of[static_cast<std::size_t>(seq)];
      if (of != parent) wrong_seq(" is not in its parent, or in another group of it");
      of = g;
      if (batch.seq_lens[seq] < tokens) wrong_seq(" is shorter than what is shared");
      const int32_t* blocks = batch.block_table + static_cast<std::ptrdiff_t>(seq) * batch.max_blocks;
      if (first == nullptr) first = blocks;
      if (!std::equal(blocks + from, blocks + to, first + from)) wrong_seq(" has other blocks");
    }
  }
}

void SpanAttention::check_step(const mortise_step& step, const char* where, int32_t layer) const {
  if (!planned_ || step.batch->step_id != planned_step_) {
    throw Failure(MORTISE_FAILED_PRECONDITION, where, "plan was not called for this step");
  }
  if (layer < 0 || layer >= dims_.num_layers) invalid(where, "there is no layer " + std::to_string(layer));
}

cudaStream_t SpanAttention::stream(const mortise_step& step) const {
  return static_cast<cudaStream_t>(table_->stream_native(device_, step.stream));
}

void SpanAttention::plan(const mortise_step& step) {
  if (!active_) throw Failure(MORTISE_FAILED_PRECONDITION, "plan", "the instance is not active");
  const mortise_batch batch = known(step.batch);
  check_batch(batch);
  planned_ = false;
  PlanShape shape = shape_;
  // A captured step launches the same kernels for every batch of its bucket.
  shape.prefill = (batch.flags & MORTISE_BATCH_BUCKET) == 0;
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
  planned_step_ = step.batch->step_id;
  planned_ = true;
}

// Writes the plan as the kernels read it; what of it is to be copied.
std::vector<SpanAttention::Part> SpanAttention::write_plan(const Plan& plan, std::byte* to) const {
  constexpr std::size_t kGap = 32 << 10;  // copied along: that takes less time than one more copy
  std::vector<Part> parts;
  const auto put = [&](std::size_t at, const auto& items) {
    const std::size_t end = at + items.size() * sizeof items[0];
    if (items.empty()) return end;
    std::memcpy(to + at, items.data(), end - at);
    if (parts.empty() || at - parts.back().end > kGap) parts.push_back({at, at});
    parts.back().end = end;
    return end;
  };
  put(0, plan.worker_begin);
  put(room_.block_begin, plan.block_begin);
  put(room_.counts, std::array{merge_counts(plan, dims_.head_dim)});
  put(room_.merges, plan.merges);
  put(put(room_.runs, plan.runs), plan.prefill);
  put(room_.shared_runs, plan.shared_runs);
  put(room_.shared_rows, plan.shared_rows);
  return parts;
}

void SpanAttention::upload(const mortise_step& step) {
  Staging& staging = staging_[next_staging_];
  next_staging_ = (next_staging_ + 1) % staging_.size();
  mortise_error error = make_error();
  if (staging.used) check(table_->event_synchronize(device_, staging.event, &error), error);
  staging.used = false;
  for (const WindowPlan& plan : plans_) {
    std::byte* const from = staging.memory + plan.offset;
    for (const Part& part : write_plan(plan.plan, from)) {
      check(table_->copy(device_, step.stream, work_.data() + plan.offset + part.begin, from + part.begin,
                         part.end - part.begin, &error),
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
  if (data == nullptr || n != dims_.head_dim || dtype != MORTISE_BF16) {
    invalid("append", "q_norm and k_norm must be bf16 vectors of head_dim " + std::to_string(dims_.head_dim));
  }
  return static_cast<const Bf16Bits*>(data);
}

void SpanAttention::append(const mortise_step& step, const mortise_append_args& args) {
  check_step(step, "append", args.layer);
  if (args.q == nullptr || args.k == nullptr || args.v == nullptr) invalid("append", "q, k and v must be given");
  const mortise_batch batch = known(step.batch);
  const Heads q = as_heads(known(args.q), "append", "q", dims_.num_heads, batch.num_tokens);
  const Heads k = as_heads(known(args.k), "append", "k", dims_.num_kv_heads, batch.num_tokens);
  const Heads v = as_heads(known(args.v), "append", "v", dims_.num_kv_heads, batch.num_tokens);
  cuda::SpanAppend work{};
  work.q = q.data, work.q_row_stride = q.row_stride, work.q_head_stride = q.head_stride;
  work.k = k.data, work.k_row_stride = k.row_stride, work.k_head_stride = k.head_stride;
  work.v = v.data, work.v_row_stride = v.row_stride, work.v_head_stride = v.head_stride;
  work.num_tokens = batch.num_tokens;
  work.num_heads = dims_.num_heads;
  work.positions = batch.device_positions;
  work.slots = batch.device_slot_mapping;
  if (args.rope != nullptr) {
    const mortise_rope rope = known(args.rope);
    if (rope.rotary_dim < 0 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > dims_.head_dim) {
      invalid("append", "rotary_dim " + std::to_string(rope.rotary_dim) + " is not even and at most head_dim");
    }
    if (rope.rotary_dim > 0) work.cos = rope.cos, work.sin = rope.sin;
    work.rotary_dim = rope.rotary_dim;
    work.interleaved = rope.interleaved != 0;
  }
  work.q_norm = norm_weight(args.q_norm);
  work.k_norm = norm_weight(args.k_norm);
  work.eps = args.norm_eps;
  work.kv = reinterpret_cast<Bf16Bits*>(kv_) + static_cast<std::size_t>(args.layer) * layout_.layer_elements;
  work.layout = layout_;
  check_cuda(cuda::span_append(work, stream(step)), "append");
}

void SpanAttention::run(const mortise_step& step, int32_t layer, const mortise_tensor& q_tensor,
                        const mortise_tensor& out_tensor) {
  check_step(step, "run", layer);
  const mortise_batch batch = known(step.batch);
  const Heads q = as_heads(q_tensor, "run", "q", dims_.num_heads, batch.num_tokens);
  const Heads out = as_heads(out_tensor, "run", "out", dims_.num_heads, batch.num_tokens);
  const WindowPlan& window = plans_[plan_index_[static_cast<std::size_t>(layer)]];
  const Plan& plan = window.plan;
  const std::byte* const work = work_.data() + window.offset;
  cuda::SpanArgs args{};
  args.q = q.data, args.q_row_stride = q.row_stride, args.q_head_stride = q.head_stride;
  args.out = out.data, args.out_row_stride = out.row_stride, args.out_head_stride = out.head_stride;
  args.kv = reinterpret_cast<const Bf16Bits*>(kv_) + static_cast<std::size_t>(layer) * layout_.layer_elements;
  args.block_table = batch.device_block_table;
  args.layout = layout_;
  args.heads_per_kv_head = dims_.num_heads / dims_.num_kv_heads;
  args.window = window.window;
  args.scale = scale_;
  args.partials = reinterpret_cast<float*>(partials_.data());
  args.partial_stats = reinterpret_cast<float2*>(args.partials + partial_rows_ * dims_.head_dim);

  // With a bucket the launches may be captured, and are the same whatever this batch needs.
  const bool bucket = (batch.flags & MORTISE_BATCH_BUCKET) != 0;
  if (bucket || !plan.runs.empty()) {
    check_cuda(cuda::span_decode(args, span_work(plan, work, batch), stream(step)), "run");
  }
  if (bucket || !plan.merges.empty()) {
    const auto* const merges = reinterpret_cast<const cuda::SpanMerge*>(work + room_.merges);
    const auto* const counts = reinterpret_cast<const cuda::SpanMergeCounts*>(work + room_.counts);
    check_cuda(cuda::span_merge(args, merges, counts, num_multiprocessors_ * 4, stream(step)), "run");
  }
  const auto* const prefill = reinterpret_cast<const cuda::SpanRun*>(work + room_.runs) + plan.runs.size();
  const auto num_prefill = static_cast<int32_t>(plan.prefill.size());
  check_cuda(cuda::span_prefill(args, prefill, num_prefill, num_multiprocessors_, stream(step)), "run");
}

// The decode kernel's lists. A bucket of several sequences has room for shared spans, whether this batch has any or
// not.
cuda::SpanWork SpanAttention::span_work(const Plan& plan, const std::byte* work, const mortise_batch& batch) const {
  cuda::SpanWork lists{};
  lists.worker_begin = reinterpret_cast<const int32_t*>(work);
  lists.runs = reinterpret_cast<const cuda::SpanRun*>(work + room_.runs);
  lists.num_blocks = num_multiprocessors_ * cuda::kDecodeBlocksPerSm;
  lists.shared.block_begin = reinterpret_cast<const int32_t*>(work + room_.block_begin);
  lists.shared.runs = reinterpret_cast<const cuda::SharedRun*>(work + room_.shared_runs);
  lists.shared.rows = reinterpret_cast<const cuda::SharedRow*>(work + room_.shared_rows);
  const bool bucket = (batch.flags & MORTISE_BATCH_BUCKET) != 0 && batch.num_seqs > 1;
  if (bucket || !plan.shared_runs.empty()) lists.shared.num_blocks = shape_.num_shared_blocks;
  return lists;
}

void SpanAttention::copy_blocks(mortise_stream* stream, const int32_t* from, const int32_t* to, int32_t num_blocks) {
  if (kv_ == nullptr) throw Failure(MORTISE_FAILED_PRECONDITION, "copy_blocks", "bind comes first");
  for (int32_t i = 0; i < num_blocks; ++i) {
    if (from[i] < 0 || from[i] >= num_blocks_ || to[i] < 0 || to[i] >= num_blocks_) {
      invalid("copy_blocks",
              "block " + std::to_string(from[i]) + " or " + std::to_string(to[i]) + " is not in the pool");
    }
  }
  const std::size_t bytes = layout_.block_elements * sizeof(Bf16Bits);
  for (int32_t i = 0; i < num_blocks; ++i) {
    mortise_error error = make_error();
    check(table_->copy(device_, stream, kv_ + static_cast<std::size_t>(to[i]) * bytes,
                       kv_ + static_cast<std::size_t>(from[i]) * bytes, bytes, &error),
          error);
  }
}

}  // namespace mortise::span_cuda
