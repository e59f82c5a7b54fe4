// Attention of a layer after the step's plan, and copies of blocks.
#include <cstring>

#include "attention/paged/paged.hpp"

namespace mortise::paged {

const cpu::SpanKernels& Paged::span_kernels() const {
  if (int8()) return bf16() ? kernels_.span_bf16_int8 : kernels_.span_f32_int8;
  return bf16() ? kernels_.span_bf16 : kernels_.span_f32;
}

cpu::SpanUnit Paged::span_unit(const mortise_batch& batch, int32_t layer, const Heads& q, const Heads& out,
                               const Plan& plan, const Unit& unit) const {
  const Block& block = plan.blocks[static_cast<std::size_t>(unit.block)];
  const std::size_t kv_bytes = static_cast<std::size_t>(layout_.element_bytes);
  const std::ptrdiff_t bytes = dtype_bytes(dims_.dtype);
  const int32_t head = unit.kv_head * (dims_.num_heads / dims_.num_kv_heads) + block.head;
  const auto first = [&](const Heads& heads) {
    return heads.data + (block.row * heads.row_stride + head * heads.head_stride) * bytes;
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
  span.seq_len = block.seq_len;
  span.window = plan.window;
  span.scale = scale_;
  span.kv = layer_memory(layer) + static_cast<std::size_t>(unit.kv_head) * layout_.head_elements * kv_bytes;
  span.layout = &layout_;
  span.block_table = batch.device_block_table + static_cast<std::ptrdiff_t>(block.seq) * batch.max_blocks;
  span.first_span = unit.first_span;
  span.end_span = unit.end_span;
  span.partials = unit.partials < 0 ? nullptr : partials_.data() + unit.partials;
  return span;
}

void Paged::run(const mortise_step& step, int32_t layer, const mortise_tensor& q_tensor,
                const mortise_tensor& out_tensor) {
  check_step(step, "run", layer);
  const mortise_batch batch = known(step.batch);
  const Heads q = as_heads(q_tensor, "run", "q", dims_.num_heads, batch.num_tokens);
  const Heads out = as_heads(out_tensor, "run", "out", dims_.num_heads, batch.num_tokens);
  const Plan& plan = plan_of(layer);
  const cpu::SpanKernels& kernels = span_kernels();
  parallel(static_cast<int32_t>(plan.tasks.size()), [&](int32_t task, int32_t thread) {
    const Task units = plan.tasks[static_cast<std::size_t>(task)];
    const auto unit_at = [&](int32_t i) {
      return span_unit(batch, layer, q, out, plan, plan.units[static_cast<std::size_t>(i)]);
    };
    cpu::SpanUnit unit = unit_at(units.begin);
    for (int32_t i = units.begin; i < units.end; ++i) {
      const bool last = i + 1 == units.end;
      const cpu::SpanUnit next = unit_at(last ? i : i + 1);
      unit.next = last ? nullptr : &next;
      (unit.partials == nullptr ? kernels.attend : kernels.partial)(unit, scratch_.data()[thread]);
      unit = next;
    }
  });
  if (plan.merges.empty()) return;
  parallel(static_cast<int32_t>(plan.merge_tasks.size()), [&](int32_t task, int32_t thread) {
    const Task units = plan.merge_tasks[static_cast<std::size_t>(task)];
    for (int32_t i = units.begin; i < units.end; ++i) {
      kernels.merge(span_unit(batch, layer, q, out, plan, plan.merges[static_cast<std::size_t>(i)]),
                    scratch_.data()[thread]);
    }
  });
}

void Paged::copy_blocks(const int32_t* from, const int32_t* to, int32_t num_blocks) {
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

}  // namespace mortise::paged
