// Runs the attention of a layer by the step's plan, and copies blocks.
#include <cstring>

#include "attention/span_cpu/attention.hpp"
#include "mortise/ext/kv_reads.h"

namespace mortise::span_cpu {

const cpu::SpanKernels& SpanAttention::span_kernels() const {
  if (kv_dtype_ == MORTISE_I8) return bf16() ? bf16_kernels_.span_int8 : kernels_.span_f32_int8;
  if (kv_dtype_ == MORTISE_F8_E4M3) return bf16() ? bf16_kernels_.span_fp8 : kernels_.span_f32_fp8;
  return bf16() ? bf16_kernels_.span : kernels_.span_f32;
}

cpu::SpanUnit SpanAttention::span_unit(const mortise_batch& batch, int32_t layer, const AttentionHeads& q,
                                       const AttentionHeads& out, const Plan& plan, const Unit& unit) const {
  const RowBlock& block = plan.row_blocks[static_cast<std::size_t>(unit.row_block)];
  const std::size_t kv_bytes = static_cast<std::size_t>(layout_.element_bytes);
  const std::ptrdiff_t bytes = dtype_bytes(dims().dtype);
  const int32_t head = unit.kv_head * (dims().num_heads / dims().num_kv_heads) + block.head;
  const bool gathered = block.prefix >= 0;
  const auto first = [&](const AttentionHeads& heads) {
    return static_cast<std::byte*>(heads.data) +
           ((gathered ? 0 : block.row) * heads.row_stride + head * heads.head_stride) * bytes;
  };
  cpu::SpanUnit span{};
  span.q = first(q);
  span.q_row_stride = q.row_stride;
  span.q_head_stride = q.head_stride;
  span.out = first(out);
  span.out_row_stride = out.row_stride;
  span.out_head_stride = out.head_stride;
  span.num_rows = block.num_rows;
  span.num_heads = block.num_heads;
  span.position = block.position;
  span.last_position = block.last_position;
  if (gathered) {
    span.rows = plan.gathered_rows.data() + block.row;
    span.positions = plan.gathered_positions.data() + block.row;
  }
  span.seq_len = block.seq_len;
  span.window = plan.window;
  span.scale = scale_;
  span.kv = layer_memory(layer) + static_cast<std::size_t>(unit.kv_head) * layout_.head_elements * kv_bytes;
  span.layout = &layout_;
  span.block_table = batch.device_block_table + static_cast<std::ptrdiff_t>(block.seq) * batch.max_blocks;
  span.first_span = unit.first_span;
  span.end_span = unit.end_span;
  span.prior = plan.placed_priors.data() + unit.first_prior;
  span.num_prior = unit.num_prior;
  span.partials = placed(unit.partials);
  return span;
}

void SpanAttention::run(const mortise_step& step, int32_t layer, const mortise_tensor& q_tensor,
                        const mortise_tensor& out_tensor) {
  kv_.require_planned(step, "run", layer);
  const mortise_batch batch = known(step.batch);
  const AttentionHeads q = kv_.heads(q_tensor, "run", "q", dims().num_heads, batch.num_tokens);
  const AttentionHeads out = kv_.heads(out_tensor, "run", "out", dims().num_heads, batch.num_tokens);
  const Plan& plan = plan_of(layer);
  const cpu::SpanKernels& kernels = span_kernels();
  for (const Round& round : plan.rounds) {
    if (round.tasks.empty()) continue;
    parallel(static_cast<int32_t>(round.tasks.size()), [&](int32_t task, int32_t thread) {
      const Task units = round.tasks[static_cast<std::size_t>(task)];
      const auto unit_at = [&](int32_t i) {
        return span_unit(batch, layer, q, out, plan, round.units[static_cast<std::size_t>(i)]);
      };
      cpu::SpanUnit unit = unit_at(units.begin);
      for (int32_t i = units.begin; i < units.end; ++i) {
        const bool last = i + 1 == units.end;
        const cpu::SpanUnit next = unit_at(last ? i : i + 1);
        unit.next = last ? nullptr : &next;
        const Result result = round.units[static_cast<std::size_t>(i)].result;
        const auto kernel = result == Result::kOut      ? kernels.attend
                            : result == Result::kFolded ? kernels.fold
                                                        : kernels.partial;
        kernel(unit, scratch_.data()[thread]);
        unit = next;
      }
    });
  }
}

uint64_t SpanAttention::kv_bytes_read(int32_t layer) const {
  if (!kv_.is_planned() || layer < 0 || layer >= dims().num_layers) return 0;
  const std::size_t token_bytes = layout_.head_elements * static_cast<std::size_t>(layout_.element_bytes) /
                                  static_cast<std::size_t>(layout_.block_size);
  return static_cast<uint64_t>(keys_read(plan_of(layer))) * token_bytes;
}

void SpanAttention::copy_blocks(mortise_stream*, const int32_t* from, const int32_t* to, int32_t num_blocks) {
  kv_.check_copies(from, to, num_blocks);
  const std::size_t bytes = kv_.block_bytes();
  parallel(num_blocks, [&](int32_t i, int32_t) {
    std::memcpy(kv_.data() + static_cast<std::size_t>(to[i]) * bytes,
                kv_.data() + static_cast<std::size_t>(from[i]) * bytes, bytes);
  });
}

const void* SpanAttention::get_ext(const char* id) {
  static constexpr mortise_kv_reads_table kReads = {
      sizeof(mortise_kv_reads_table), 0, [](mortise_attention* attention, int32_t layer) {
        return reinterpret_cast<SpanAttention*>(attention)->kv_bytes_read(layer);
      }};
  return std::string_view(id) == MORTISE_EXT_KV_READS ? &kReads : nullptr;
}

}  // namespace mortise::span_cpu
