// Norms and rotates q and k, and writes K and V to the cache.
#include <algorithm>

#include "attention/span_cpu/attention.hpp"

namespace mortise::span_cpu {
namespace {

using cpu::Bf16;

constexpr int32_t kAppendTasks = 4;        // tasks per thread
constexpr int32_t kAppendElements = 8192;  // least elements of q, k and v in a task: some microseconds of work

template <typename T>
void fetch(const T* from, int32_t elements) {
  constexpr int32_t kLine = 64 / sizeof(T);
  for (int32_t i = 0; i < elements; i += kLine) __builtin_prefetch(from + i);
}

}  // namespace

// Divides the rows into tasks. Padding rows (of sequences without tokens) are left out: they are not read, and may all
// have the same slot.
void SpanAttention::plan_append(const mortise_batch& batch) {
  append_rows_.clear();
  const int32_t columns = (dims().num_heads + 2 * dims().num_kv_heads) * dims().head_dim;
  const int32_t even = (batch.num_tokens + num_threads_ * kAppendTasks - 1) / (num_threads_ * kAppendTasks);
  const int32_t least = std::max({1, even, kAppendElements / columns});
  const int32_t rows = least > cpu::kKeyGroup ? least / cpu::kKeyGroup * cpu::kKeyGroup : least;  // whole groups
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) {
    if (batch.seq_lens[seq] == 0) continue;
    for (int32_t row = batch.cu_seqlens_q[seq]; row < batch.cu_seqlens_q[seq + 1];) {
      const bool extends =
          !append_rows_.empty() && append_rows_.back().end == row && row - append_rows_.back().begin < rows;
      if (!extends) append_rows_.push_back({row, row});
      Task& task = append_rows_.back();
      task.end = std::min(batch.cu_seqlens_q[seq + 1], task.begin + rows);
      row = task.end;
    }
  }
}

// Returns the weight in the model's type. `narrowed` has room for a head. The conversion is exact: a device that stores
// a bf16 weight as f32 has only bf16 values.
const void* SpanAttention::norm_weight(const mortise_weight* weight, Bf16* narrowed) const {
  if (weight == nullptr) return nullptr;
  int64_t n = 0;
  int32_t dtype = 0;
  const void* data = device_table_->vector_weight(device_, weight, &n, &dtype);
  if (data == nullptr || n != dims().head_dim) {
    invalid("append", "q_norm and k_norm must be vectors of head_dim " + std::to_string(dims().head_dim));
  }
  if (dtype == dims().dtype) return data;
  if (dtype != MORTISE_F32) invalid("append", "a norm weight is neither f32 nor of the model's type");
  kernels_.elementwise.f32_to_bf16(static_cast<const float*>(data), narrowed, static_cast<std::size_t>(n));
  return narrowed;
}

// Norms and rotates a row of q or k, in place.
template <typename T>
void SpanAttention::prepare_row(const AppendWork& work, const AttentionHeads& heads, int32_t num_heads,
                                const void* weight, int32_t row) const {
  constexpr bool kBf16 = sizeof(T) == sizeof(Bf16);
  T* const x = static_cast<T*>(heads.data) + row * heads.row_stride;
  if (weight != nullptr) {
    const auto stride = static_cast<std::size_t>(heads.head_stride);
    const cpu::NormArgs args = {
        x, stride, nullptr, 0, weight, nullptr, x, stride, static_cast<std::size_t>(dims().head_dim), work.norm_eps};
    if constexpr (kBf16) {
      kernels_.norm.rms_norm_bf16(args, 0, static_cast<std::size_t>(num_heads));
    } else {
      kernels_.norm.rms_norm_f32(args, 0, static_cast<std::size_t>(num_heads));
    }
  }
  if (work.rope.rotary_dim == 0) return;
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(work.positions[row]) * (work.rope.rotary_dim / 2);
  const auto rotate = [&](auto kernel) {
    kernel(x, static_cast<std::size_t>(num_heads), heads.head_stride, work.rope.cos + at, work.rope.sin + at,
           static_cast<std::size_t>(work.rope.rotary_dim));
  };
  const bool interleaved = work.rope.interleaved != 0;
  if constexpr (kBf16) {
    rotate(interleaved ? kernels_.rope.rotate_interleaved_bf16 : kernels_.rope.rotate_bf16);
  } else {
    rotate(interleaved ? kernels_.rope.rotate_interleaved_f32 : kernels_.rope.rotate_f32);
  }
}

template <typename T>
void SpanAttention::write_rows(const AppendWork& work, Task rows) const {
  cpu::KvWrite write{};
  write.k = static_cast<const T*>(work.k.data) + rows.begin * work.k.row_stride;
  write.k_row_stride = work.k.row_stride;
  write.k_head_stride = work.k.head_stride;
  write.v = static_cast<const T*>(work.v.data) + rows.begin * work.v.row_stride;
  write.v_row_stride = work.v.row_stride;
  write.v_head_stride = work.v.head_stride;
  write.num_rows = rows.end - rows.begin;
  write.slots = work.slots + rows.begin;
  write.kv = work.kv;
  write.layout = &layout_;
  const cpu::KvWriteKernels& kernels = kernels_.kv_write;
  constexpr bool kBf16 = sizeof(T) == sizeof(Bf16);
  const auto write_kv = kv_dtype_ == MORTISE_I8        ? (kBf16 ? kernels.bf16_int8 : kernels.f32_int8)
                        : kv_dtype_ == MORTISE_F8_E4M3 ? (kBf16 ? kernels.bf16_fp8 : kernels.f32_fp8)
                                                       : (kBf16 ? kernels.bf16 : kernels.f32);
  write_kv(write);
}

// Handles a few rows at a time, up to the end of a key group of the KV cache. So the rows stay in the first-level cache
// until they are written head by head, and a key group is written as a whole. V is prefetched together with its row of
// q and k, because its memory follows theirs.
template <typename T>
void SpanAttention::append_rows(const AppendWork& work, Task rows) const {
  for (int32_t begin = rows.begin; begin < rows.end;) {
    const auto in_group = static_cast<int32_t>(work.slots[begin] % cpu::kKeyGroup);
    const int32_t end = std::min(begin + cpu::kKeyGroup - in_group, rows.end);
    for (int32_t row = begin; row < end; ++row) {
      prepare_row<T>(work, work.q, dims().num_heads, work.q_norm, row);
      prepare_row<T>(work, work.k, dims().num_kv_heads, work.k_norm, row);
      const T* const v = static_cast<const T*>(work.v.data) + row * work.v.row_stride;
      for (int32_t head = 0; head < dims().num_kv_heads; ++head) fetch(v + head * work.v.head_stride, dims().head_dim);
    }
    write_rows<T>(work, {begin, end});
    begin = end;
  }
}

void SpanAttention::append(const mortise_step& step, const mortise_append_args& args) {
  kv_.require_planned(step, "append", args.layer);
  if (args.q == nullptr || args.k == nullptr || args.v == nullptr) invalid("append", "q, k and v must be given");
  const mortise_batch batch = known(step.batch);
  AppendWork work{};
  work.q = kv_.heads(known(args.q), "append", "q", dims().num_heads, batch.num_tokens);
  work.k = kv_.heads(known(args.k), "append", "k", dims().num_kv_heads, batch.num_tokens);
  work.v = kv_.heads(known(args.v), "append", "v", dims().num_kv_heads, batch.num_tokens);
  Bf16 q_norm[cpu::kMaxHeadDim], k_norm[cpu::kMaxHeadDim];
  work.q_norm = norm_weight(args.q_norm, q_norm);
  work.k_norm = norm_weight(args.k_norm, k_norm);
  work.norm_eps = args.norm_eps;
  work.rope = kv_.rope(args);
  work.positions = batch.device_positions;
  work.slots = batch.device_slot_mapping;
  work.kv = layer_memory(args.layer);
  parallel(static_cast<int32_t>(append_rows_.size()), [&](int32_t task, int32_t) {
    const Task rows = append_rows_[static_cast<std::size_t>(task)];
    bf16() ? append_rows<Bf16>(work, rows) : append_rows<float>(work, rows);
  });
}

}  // namespace mortise::span_cpu
