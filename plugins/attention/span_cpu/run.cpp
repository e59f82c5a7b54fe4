// Attention of a layer after the step's plan, and copies of blocks.
#include <cstring>

#include "attention/span_cpu/attention.hpp"

namespace mortise::span_cpu {

const cpu::SpanKernels& SpanAttention::span_kernels() const {
  if (int8()) return bf16() ? kernels_.span_bf16_int8 : kernels_.span_f32_int8;
  return bf16() ? kernels_.span_bf16 : kernels_.span_f32;
}

cpu::SpanUnit SpanAttention::span_unit(const mortise_batch& batch, int32_t layer, const Heads& q, const Heads& out,
                                       const Plan& plan, const Unit& unit) const {
  const Block& block = plan.blocks[static_cast<std::size_t>(unit.block)];
  const std::size_t kv_bytes = static_cast<std::size_t>(layout_.element_bytes);
  const std::ptrdiff_t bytes = dtype_bytes(dims_.dtype);
  const int32_t head = unit.kv_head * (dims_.num_heads / dims_.num_kv_heads) + block.head;
  const bool gathered = block.prefix >= 0;
  const auto first = [&](const Heads& heads) {
    return heads.data + ((gathered ? 0 : block.row) * heads.row_stride + head * heads.head_stride) * bytes;
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
  check_step(step, "run", layer);
  const mortise_batch batch = known(step.batch);
  const Heads q = as_heads(q_tensor, "run", "q", dims_.num_heads, batch.num_tokens);
  const Heads out = as_heads(out_tensor, "run", "out", dims_.num_heads, batch.num_tokens);
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
  if (!planned_ || layer < 0 || layer >= dims_.num_layers) return 0;
  const std::size_t token_bytes = layout_.head_elements * static_cast<std::size_t>(layout_.element_bytes) /
                                  static_cast<std::size_t>(layout_.block_size);
  return static_cast<uint64_t>(keys_read(plan_of(layer))) * token_bytes;
}

void SpanAttention::copy_blocks(const int32_t* from, const int32_t* to, int32_t num_blocks) {
  if (kv_ == nullptr) throw Failure(MORTISE_FAILED_PRECONDITION, "copy_blocks", "bind comes first");
  for (int32_t i = 0; i < num_blocks; ++i) {
    if (from[i] < 0 || from[i] >= num_blocks_ || to[i] < 0 || to[i] >= num_blocks_) {
      invalid("copy_blocks",
              "block " + std::to_string(from[i]) + " or " + std::to_string(to[i]) + " is not in the pool");
    }
  }
  const std::size_t bytes = layout_.block_elements * static_cast<std::size_t>(layout_.element_bytes);
  parallel(num_blocks, [&](int32_t i, int32_t) {
    std::memcpy(kv_ + static_cast<std::size_t>(to[i]) * bytes, kv_ + static_cast<std::size_t>(from[i]) * bytes, bytes);
  });
}

}  // namespace mortise::span_cpu
