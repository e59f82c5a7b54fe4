#include "attention/span_cpu/plan.hpp"

#include <algorithm>

#include "attention/span_cpu/plan_units.hpp"
#include "attention/span_cpu/shared_prefix.hpp"

namespace mortise::span_cpu {
namespace {

using cpu::kSpan;
using cpu::kSpanRows;
using cpu::kUnitRows;

// Adds the row block once for each group of query heads that a unit can take.
void add_for_heads(RowBlock block, const PlanShape& shape, Plan& plan) {
  const int32_t heads = std::min(shape.group, kSpanRows);
  for (block.head = 0; block.head < shape.group; block.head += heads) {
    block.num_heads = std::min(heads, shape.group - block.head);
    plan.row_blocks.push_back(block);
  }
}

void add_row_blocks(const mortise_batch& batch, const PlanShape& shape, int32_t seq, Plan& plan) {
  const int32_t begin = batch.cu_seqlens_q[seq], end = batch.cu_seqlens_q[seq + 1];
  const int32_t seq_len = batch.seq_lens[seq];
  const int32_t rows = unit_rows(end - begin, shape);
  // Later rows see more keys, so their units start first.
  for (int32_t row = begin + (std::max(end - begin, 1) - 1) / rows * rows; row >= begin && begin < end; row -= rows) {
    RowBlock block{};
    block.seq = seq;
    block.prefix = -1;
    block.row = row;
    block.row_of_run = row - begin;
    block.num_rows = std::min(rows, end - row);
    block.seq_len = seq_len;
    if (seq_len > 0) {
      block.position = seq_len - (end - row);
      block.last_position = block.position + block.num_rows - 1;
      const int32_t first_key = plan.window > 0 ? std::max(0, block.position - plan.window + 1) : 0;
      block.first_span = std::max(first_key / kSpan, first_own_span(plan, seq));
      block.end_span = block.last_position / kSpan + 1;
    }
    add_for_heads(block, shape, plan);
  }
}

void add_gathered_row_blocks(const PlanShape& shape, int32_t index, Plan& plan) {
  const SharedPrefix& prefix = plan.prefixes[static_cast<std::size_t>(index)];
  const int32_t rows = unit_rows(prefix.num_rows, shape);
  const int32_t end = prefix.first_row + prefix.num_rows;
  for (int32_t row = prefix.first_row; row < end; row += rows) {
    RowBlock block{};
    block.seq = prefix.seq;
    block.prefix = index;
    block.row = row;
    block.num_rows = std::min(rows, end - row);
    const auto positions = plan.gathered_positions.begin() + row;
    const auto [least, most] = std::minmax_element(positions, positions + block.num_rows);
    block.position = *least;
    block.last_position = *most;
    block.first_span = prefix.first_span;
    block.end_span = prefix.end_span;
    block.seq_len = prefix.end_span * kSpan;  // a shared prefix is written as a whole, and nothing after it is read
    add_for_heads(block, shape, plan);
  }
}

}  // namespace

int32_t unit_rows(int32_t num_rows, const PlanShape& shape) {
  constexpr int32_t kUnitsPerThread = 4;
  const int32_t heads = std::min(shape.group, kSpanRows), step = kSpanRows / heads, most = kUnitRows / (step * heads);
  const int32_t steps = (std::max(num_rows, 1) + step - 1) / step * shape.num_kv_heads;
  return step * std::clamp(steps / (shape.num_threads * kUnitsPerThread), 1, most);
}

int64_t keys_read(const Plan& plan) {
  int64_t keys = 0;
  for (const Round& round : plan.rounds) {
    for (const Unit& unit : round.units) {
      if (unit.first_span == unit.end_span) continue;
      const RowBlock& block = plan.row_blocks[static_cast<std::size_t>(unit.row_block)];
      const int32_t first = plan.window > 0 ? std::max(0, block.position - plan.window + 1) : 0;
      keys += std::min(unit.end_span * kSpan, block.last_position + 1) - std::max(unit.first_span * kSpan, first);
    }
  }
  return keys;
}

void make_plan(const mortise_batch& batch, const PlanShape& shape, Plan& plan) {
  plan.row_blocks.clear();
  plan.prefixes.clear();
  plan.gathered_rows.clear();
  plan.gathered_positions.clear();
  plan.shares.clear();
  plan.last_share.assign(static_cast<std::size_t>(batch.num_seqs), -1);
  if (shape.shares_prefixes) find_shared_prefixes(batch, shape, plan);
  const auto num_prefixes = static_cast<int32_t>(plan.prefixes.size());
  for (int32_t index = 0; index < num_prefixes; ++index) add_gathered_row_blocks(shape, index, plan);
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) add_row_blocks(batch, shape, seq, plan);
  make_units(shape, plan);
}

}  // namespace mortise::span_cpu
