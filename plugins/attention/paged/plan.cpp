#include "attention/paged/plan.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/cpu/span.hpp"

namespace mortise::paged {
namespace {

using cpu::kSpan;
using cpu::kSpanRows;
using cpu::kUnitRows;

// Cost is counted in keys times rows; reading a key costs about as much as four rows of arithmetic with it.
constexpr int64_t kReadCost = 4;
constexpr int64_t kTaskCost = 4096;         // some ten microseconds: handing out a task costs about one
constexpr int32_t kTasksPerThread = 8;      // enough that no thread waits long for the last one
constexpr int32_t kUnitsPerThread = 4;      // of a sequence, before units grow
constexpr int32_t kPiecesPerThread = 4;     // a block that is more of the work than this gives is cut
constexpr int64_t kMaxPartials = 32 << 20;  // floats; beyond that blocks stay whole

int32_t ceil_div(int32_t a, int32_t b) {
  return (a + b - 1) / b;
}

int64_t cost_of(const Block& block, int32_t first_span, int32_t end_span) {
  const int64_t keys = std::min(end_span * kSpan, block.position + block.num_rows) - first_span * kSpan;
  return std::max<int64_t>(keys, 1) * (kReadCost + block.num_rows * block.num_heads);
}
int64_t cost_of(const Block& block) {
  return cost_of(block, block.first_span, block.end_span);
}

// Rows of a unit: as many as may share what is made of K and V, if that leaves each thread some units of the sequence.
int32_t unit_rows(int32_t num_rows, int32_t heads, const PlanShape& shape) {
  const int32_t step = kSpanRows / heads, most = kUnitRows / (step * heads);
  const int32_t steps = ceil_div(std::max(num_rows, 1), step) * shape.num_kv_heads;
  return step * std::clamp(steps / (shape.num_threads * kUnitsPerThread), 1, most);
}

void add_blocks(const mortise_batch& batch, const PlanShape& shape, int32_t seq, Plan& plan) {
  const int32_t begin = batch.cu_seqlens_q[seq], end = batch.cu_seqlens_q[seq + 1];
  const int32_t seq_len = batch.seq_lens[seq];
  const int32_t heads = std::min(shape.group, kSpanRows);
  const int32_t rows = unit_rows(end - begin, heads, shape);
  // The last rows see most: their units start first.
  for (int32_t row = begin + (std::max(end - begin, 1) - 1) / rows * rows; row >= begin && begin < end; row -= rows) {
    Block block{};
    block.seq = seq;
    block.row = row;
    block.num_rows = std::min(rows, end - row);
    block.seq_len = seq_len;
    if (seq_len > 0) {
      block.position = seq_len - (end - row);
      const int32_t first_key = plan.window > 0 ? std::max(0, block.position - plan.window + 1) : 0;
      block.first_span = first_key / kSpan;
      block.end_span = ceil_div(block.position + block.num_rows, kSpan);
    }
    for (block.head = 0; block.head < shape.group; block.head += heads) {
      block.num_heads = std::min(heads, shape.group - block.head);
      plan.blocks.push_back(block);
    }
  }
}

// Cuts the units [0, n) of `units` into tasks of at least `cost`.
void make_tasks(const std::vector<Unit>& units, const std::vector<Block>& blocks, int64_t cost,
                std::vector<Task>& tasks) {
  int64_t sum = 0;
  int32_t begin = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(units.size()); ++i) {
    const Unit& unit = units[static_cast<std::size_t>(i)];
    sum += cost_of(blocks[static_cast<std::size_t>(unit.block)], unit.first_span, unit.end_span);
    if (sum < cost && i + 1 < static_cast<int32_t>(units.size())) continue;
    tasks.push_back({begin, i + 1});
    begin = i + 1;
    sum = 0;
  }
}

// The pieces of one block for one kv head, and the merge that follows.
void add_pieces(const PlanShape& shape, int32_t index, int32_t kv_head, int32_t spans, Plan& plan) {
  const Block& block = plan.blocks[static_cast<std::size_t>(index)];
  const auto floats = static_cast<int64_t>(cpu::partial_floats(shape.value_width, block.num_rows, block.num_heads));
  plan.merges.push_back({index, kv_head, block.first_span, block.end_span, plan.partial_floats});
  for (int32_t span = block.first_span; span < block.end_span; span += spans) {
    const int32_t end = std::min(span + spans, block.end_span);
    plan.units.push_back({index, kv_head, span, end, plan.partial_floats});
    plan.partial_floats += (end - span) * floats;
  }
}

}  // namespace

void make_plan(const mortise_batch& batch, const PlanShape& shape, Plan& plan) {
  plan.blocks.clear();
  plan.units.clear();
  plan.tasks.clear();
  plan.merges.clear();
  plan.merge_tasks.clear();
  plan.partial_floats = 0;
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) add_blocks(batch, shape, seq, plan);
  const auto sum = [](int64_t total, const Block& block) { return total + cost_of(block); };
  const int64_t total = std::accumulate(plan.blocks.begin(), plan.blocks.end(), int64_t{0}, sum) * shape.num_kv_heads;
  const int64_t piece = std::max(kTaskCost, total / (shape.num_threads * kPiecesPerThread));

  const int32_t num_blocks = static_cast<int32_t>(plan.blocks.size());
  for (int32_t begin = 0, end; begin < num_blocks; begin = end) {
    // Blocks of a sequence that share a kv head follow each other: their K and V stay in the cache.
    const auto seq_of = [&](int32_t i) { return plan.blocks[static_cast<std::size_t>(i)].seq; };
    for (end = begin + 1; end < num_blocks && seq_of(end) == seq_of(begin);) ++end;
    for (int32_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      for (int32_t i = begin; i < end; ++i) {
        const Block& block = plan.blocks[static_cast<std::size_t>(i)];
        const int32_t num_spans = block.end_span - block.first_span;
        const int32_t pieces = static_cast<int32_t>(std::min<int64_t>(num_spans, cost_of(block) / piece));
        if (shape.num_threads > 1 && pieces > 1 && plan.partial_floats < kMaxPartials) {
          add_pieces(shape, i, kv_head, ceil_div(num_spans, pieces), plan);
        } else {
          plan.units.push_back({i, kv_head, block.first_span, block.end_span, -1});
        }
      }
    }
  }
  const int64_t task = std::max(kTaskCost, total / (shape.num_threads * kTasksPerThread));
  make_tasks(plan.units, plan.blocks, task, plan.tasks);
  make_tasks(plan.merges, plan.blocks, 64 * kTaskCost, plan.merge_tasks);  // a span of a merge is two lines to a row
}

}  // namespace mortise::paged
