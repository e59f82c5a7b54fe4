#include "attention/paged/plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "kernels/cpu/span.hpp"

namespace mortise::paged {
namespace {

struct Sequences {
  explicit Sequences(const std::vector<std::pair<int32_t, int32_t>>& rows_and_length) {
    for (const auto& [rows, length] : rows_and_length) {
      cu_seqlens_q.push_back(cu_seqlens_q.back() + rows);
      seq_lens.push_back(length);
    }
    batch.num_seqs = static_cast<int32_t>(seq_lens.size());
    batch.num_tokens = cu_seqlens_q.back();
    batch.cu_seqlens_q = cu_seqlens_q.data();
    batch.seq_lens = seq_lens.data();
  }
  std::vector<int32_t> cu_seqlens_q{0}, seq_lens;
  mortise_batch batch{};
};

Plan plan_for(const Sequences& sequences, const PlanShape& shape, int32_t window = 0) {
  Plan plan{};
  plan.window = window;
  make_plan(sequences.batch, shape, plan);
  return plan;
}

// Every row, head and span that the row sees is in exactly one unit, and every unit in exactly one task.
void expect_complete(const Sequences& s, const PlanShape& shape, const Plan& plan) {
  std::map<std::tuple<int32_t, int32_t>, std::multiset<int32_t>> spans;  // of (row, head)
  int32_t next = 0;
  for (const Task& task : plan.tasks) {
    ASSERT_EQ(task.begin, next);
    ASSERT_LT(task.begin, task.end);
    next = task.end;
  }
  ASSERT_EQ(next, static_cast<int32_t>(plan.units.size()));
  for (const Unit& unit : plan.units) {
    const Block& block = plan.blocks[static_cast<std::size_t>(unit.block)];
    ASSERT_LE(block.num_rows * block.num_heads, cpu::kUnitRows);
    for (int32_t r = 0; r < block.num_rows; ++r) {
      for (int32_t h = 0; h < block.num_heads; ++h) {
        auto& seen = spans[{block.row + r, unit.kv_head * shape.group + block.head + h}];
        for (int32_t span = unit.first_span; span < unit.end_span; ++span) seen.insert(span);
      }
    }
  }
  for (int32_t seq = 0; seq < s.batch.num_seqs; ++seq) {
    for (int32_t row = s.cu_seqlens_q[seq]; row < s.cu_seqlens_q[seq + 1]; ++row) {
      const int32_t position = s.seq_lens[seq] - (s.cu_seqlens_q[seq + 1] - row);
      const int32_t first = plan.window > 0 ? std::max(0, position - plan.window + 1) : 0;
      for (int32_t head = 0; head < shape.group * shape.num_kv_heads; ++head) {
        const auto found = spans.find({row, head});
        ASSERT_NE(found, spans.end()) << "row " << row;
        if (s.seq_lens[seq] == 0) continue;
        for (int32_t span = first / cpu::kSpan; span <= position / cpu::kSpan; ++span) {
          ASSERT_EQ(found->second.count(span), 1u) << "row " << row << ", head " << head << ", span " << span;
        }
      }
    }
  }
}

TEST(PagedPlan, CoversEveryRowHeadAndSpanOnce) {
  std::mt19937 rng(5);
  const auto draw = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(rng); };
  for (int i = 0; i < 60; ++i) {
    std::vector<std::pair<int32_t, int32_t>> sequences;
    for (int32_t n = draw(1, 6); n > 0; --n) {
      const int32_t rows = draw(1, 3) == 1 ? draw(1, 300) : draw(0, 3);
      sequences.push_back({rows, draw(0, 7) == 0 ? 0 : rows + draw(0, 5000)});
    }
    const Sequences s(sequences);
    const PlanShape shape = {draw(1, 8), draw(1, 40), 64, draw(1, 16)};
    SCOPED_TRACE(i);
    expect_complete(s, shape, plan_for(s, shape, draw(0, 1) * draw(1, 600)));
  }
}

TEST(PagedPlan, ALoneLongContextIsCutForTheThreads) {
  const Sequences s({{1, 20000}});
  const PlanShape shape = {1, 4, 64, 4};
  const Plan plan = plan_for(s, shape);
  expect_complete(s, shape, plan);
  EXPECT_GE(plan.tasks.size(), 8u);
  ASSERT_EQ(plan.merges.size(), 1u);
  EXPECT_EQ(plan.partial_floats, 79 * (2 * cpu::kSpanRows + 4 * 64));  // 79 spans
}

TEST(PagedPlan, OneThreadFoldsEverything) {
  const Sequences s({{1, 20000}, {500, 600}});
  const PlanShape shape = {2, 4, 64, 1};
  const Plan plan = plan_for(s, shape);
  EXPECT_TRUE(plan.merges.empty());
  EXPECT_EQ(plan.partial_floats, 0);
}

TEST(PagedPlan, ManySequencesAreNotCut) {
  const Sequences s(std::vector<std::pair<int32_t, int32_t>>(32, {1, 1000}));
  const PlanShape shape = {12, 1, 64, 2};
  const Plan plan = plan_for(s, shape);
  EXPECT_TRUE(plan.merges.empty());
  EXPECT_EQ(plan.units.size(), 32u * 12u);
}

}  // namespace
}  // namespace mortise::paged
