// Covers: plugins/attention/span_cpu/{plan_units,shared_prefix}
#include "attention/span_cpu/plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "sequences.hpp"

namespace mortise::span_cpu {
namespace {

using test::Sequences;

constexpr int32_t kWidth = 64;

Plan plan_for(Sequences& sequences, const PlanShape& shape, int32_t window = 0) {
  Plan plan{};
  plan.window = window;
  make_plan(sequences.batch(), shape, plan);
  return plan;
}

// Follows a plan as the threads would: which spans of which row and head have come into each partial and each result.
class Follower {
 public:
  using RowHead = std::pair<int32_t, int32_t>;
  using Spans = std::vector<int32_t>;

  Follower(const PlanShape& shape, const Plan& plan) : shape_(shape), plan_(plan) {}

  void follow() {
    for (const Round& round : plan_.rounds) {
      int32_t next = 0;
      for (const Task& task : round.tasks) {
        ASSERT_EQ(task.begin, next);
        ASSERT_LT(task.begin, task.end);
        next = task.end;
      }
      ASSERT_EQ(next, static_cast<int32_t>(round.units.size()));
      // What a unit reads, another round has written.
      const std::map<int64_t, Record> before = records_;
      for (const Unit& unit : round.units) follow(unit, before);
    }
  }
  const std::map<RowHead, Spans>& results() const { return results_; }

 private:
  struct Record {
    RowHead row_head;
    Spans spans;
  };

  void follow(const Unit& unit, const std::map<int64_t, Record>& before) {
    const RowBlock& block = plan_.row_blocks[static_cast<std::size_t>(unit.row_block)];
    ASSERT_LE(block.num_rows * block.num_heads, cpu::kUnitRows);
    for (int32_t r = 0; r < block.num_rows; ++r) {
      const int32_t row =
          block.prefix < 0 ? block.row + r : plan_.gathered_rows[static_cast<std::size_t>(block.row + r)];
      for (int32_t h = 0; h < block.num_heads; ++h) {
        const RowHead row_head = {row, unit.kv_head * shape_.group + block.head + h};
        const auto at = [&](const Partials& partials, int32_t n) {
          const auto record = static_cast<int64_t>(cpu::record_floats(shape_.value_width));
          return partials.at + n * partials.stride + (r * block.num_heads + h) * record;
        };
        Spans seen;
        for (int32_t i = 0; i < unit.num_prior; ++i) {
          const Partials& prior = plan_.priors[static_cast<std::size_t>(unit.first_prior + i)];
          for (int32_t n = 0; n < prior.count; ++n) {
            const auto found = before.find(at(prior, n));
            ASSERT_NE(found, before.end()) << "row " << row << " merges what nobody has written";
            ASSERT_EQ(found->second.row_head, row_head);
            seen.insert(seen.end(), found->second.spans.begin(), found->second.spans.end());
          }
        }
        for (int32_t span = unit.first_span; span < unit.end_span; ++span) {
          if (unit.result == Result::kPartials) {
            write(at(unit.partials, span - unit.first_span), {row_head, {span}});
          } else {
            seen.push_back(span);
          }
        }
        if (unit.result == Result::kFolded) write(at(unit.partials, 0), {row_head, seen});
        if (unit.result == Result::kOut) {
          ASSERT_TRUE(results_.emplace(row_head, seen).second) << "row " << row;
        }
      }
    }
  }
  void write(int64_t at, Record record) {
    ASSERT_GE(at, 0);
    ASSERT_LE(at + static_cast<int64_t>(cpu::record_floats(shape_.value_width)), plan_.partial_floats);
    ASSERT_TRUE(records_.emplace(at, std::move(record)).second) << "two units write one partial";
  }

  const PlanShape& shape_;
  const Plan& plan_;
  std::map<int64_t, Record> records_;
  std::map<RowHead, Spans> results_;
};

// Expects that every row and head is written once, from all spans that it sees, in order from left to right.
void expect_complete(const Sequences& s, const PlanShape& shape, const Plan& plan) {
  Follower follower(shape, plan);
  follower.follow();
  if (testing::Test::HasFatalFailure()) return;
  ASSERT_EQ(follower.results().size(),
            static_cast<std::size_t>(s.cu_seqlens_q.back() * shape.group * shape.num_kv_heads));
  for (const auto& [row_head, spans] : follower.results()) {
    const int32_t row = row_head.first, seq = s.sequence_of(row), position = s.positions[static_cast<std::size_t>(row)];
    if (s.seq_lens[static_cast<std::size_t>(seq)] == 0) continue;
    ASSERT_FALSE(spans.empty());
    for (std::size_t i = 1; i < spans.size(); ++i) ASSERT_EQ(spans[i], spans[i - 1] + 1) << "row " << row;
    const int32_t first = plan.window > 0 ? std::max(0, position - plan.window + 1) : 0;
    ASSERT_LE(spans.front(), first / cpu::kSpan) << "row " << row;
    ASSERT_GE(spans.back(), position / cpu::kSpan) << "row " << row;
  }
}

TEST(SpanPlan, CoversEveryRowHeadAndSpanOnce) {
  std::mt19937 rng(5);
  const auto draw = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(rng); };
  for (int i = 0; i < 60; ++i) {
    std::vector<std::pair<int32_t, int32_t>> sequences;
    for (int32_t n = draw(1, 6); n > 0; --n) {
      const int32_t rows = draw(1, 3) == 1 ? draw(1, 300) : draw(0, 3);
      sequences.push_back({rows, draw(0, 7) == 0 ? 0 : rows + draw(0, 5000)});
    }
    Sequences s(sequences);
    const PlanShape shape = {draw(1, 8), draw(1, 40), kWidth, draw(1, 16), false};
    SCOPED_TRACE(i);
    expect_complete(s, shape, plan_for(s, shape, draw(0, 1) * draw(1, 600)));
  }
}

TEST(SpanPlan, ALoneLongContextIsCutForTheThreads) {
  Sequences s({{1, 20000}});
  const PlanShape shape = {1, 4, kWidth, 4, false};
  const Plan plan = plan_for(s, shape);
  expect_complete(s, shape, plan);
  EXPECT_GE(plan.rounds[0].tasks.size(), 8u);
  ASSERT_EQ(plan.rounds[1].units.size(), 1u);
  EXPECT_EQ(plan.partial_floats, 79 * 4 * (kWidth + 16));  // 79 spans
}

TEST(SpanPlan, OneThreadFoldsEverything) {
  Sequences s({{1, 20000}, {500, 600}});
  const Plan plan = plan_for(s, {2, 4, kWidth, 1, false});
  EXPECT_TRUE(plan.rounds[1].units.empty());
  EXPECT_EQ(plan.partial_floats, 0);
}

TEST(SpanPlan, ManySequencesAreNotCut) {
  Sequences s(std::vector<std::pair<int32_t, int32_t>>(32, {1, 1000}));
  const Plan plan = plan_for(s, {12, 1, kWidth, 2, false});
  EXPECT_TRUE(plan.rounds[1].units.empty());
  EXPECT_EQ(plan.rounds[0].units.size(), 32u * 12u);
}

// Random trees of prefixes under random runs: drafts, chunks, decodes, of which some share and some do not.
TEST(SpanPlan, SharedPrefixesCoverEveryRowHeadAndSpanOnce) {
  int num_shared = 0, num_following = 0, num_cut = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 rng(seed);
    const auto draw = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(rng); };
    Sequences s({});
    for (int32_t n = draw(1, 12); n > 0; --n) {
      const int32_t rows = draw(0, 4) == 0 ? draw(1, 200) : draw(1, 6), other = draw(-1, s.size() - 1);
      const int32_t most = other < 0 ? 0 : s.seq_lens[static_cast<std::size_t>(other)] - 1;
      const int32_t shared = draw(0, 4) == 0 ? 0 : draw(most / 2, most);
      s.add(rows, shared + rows + draw(0, 2) * draw(0, 2500), other, shared);
    }
    if (draw(0, 4) == 0) s.add(1, 0);
    const PlanShape shape = {draw(1, 6), draw(0, 3) == 0 ? draw(9, 40) : draw(1, 8), kWidth, draw(1, 12), true};
    SCOPED_TRACE(seed);
    const Plan plan = plan_for(s, shape, draw(0, 1) * draw(1, 2000));
    expect_complete(s, shape, plan);
    ASSERT_FALSE(HasFatalFailure());
    PlanShape alone = shape;
    alone.shares_prefixes = false;
    if (!plan.prefixes.empty() && plan.window == 0) {  // with one, the last rows of a run may see none of the prefix
      ASSERT_LT(keys_read(plan), keys_read(plan_for(s, alone, plan.window)));
    }
    num_shared += plan.prefixes.empty() ? 0 : 1;
    for (const SharedPrefix& prefix : plan.prefixes) {
      num_following += prefix.follows ? 1 : 0;
      num_cut += !prefix.follows && prefix.count > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(num_shared, 60);  // fewer: the drawn trees test little
  EXPECT_GT(num_following, 20);
  EXPECT_GT(num_cut, 5);
}

// 64 sequences that decode after a common prefix.
Sequences sharing(int32_t members, int32_t shared, int32_t own, int32_t rows = 1) {
  Sequences s({{rows, shared + own}});
  for (int32_t i = 1; i < members; ++i) s.add(rows, shared + own, 0, shared);
  return s;
}

TEST(SpanPlan, APrefixIsReadOnceForAllItsMembers) {
  Sequences s = sharing(64, 2000, 208);
  const PlanShape shape = {12, 1, kWidth, 2, true};
  const Plan plan = plan_for(s, shape);
  expect_complete(s, shape, plan);
  ASSERT_EQ(plan.prefixes.size(), 1u);
  EXPECT_EQ(plan.prefixes[0].end_span, 7);  // 1792 of 2000 tokens: whole spans
  EXPECT_EQ(plan.prefixes[0].count, 1);     // all of them in one partial
  EXPECT_EQ(keys_read(plan), 12 * (1792 + 64 * (2208 - 1792)));
}

TEST(SpanPlan, WhatSavesNoReadingIsReadAlone) {
  const PlanShape shape = {32, 4, kWidth, 1, true};  // units are as large as they can be
  const auto plan_of = [&](Sequences s) { return plan_for(s, shape); };
  EXPECT_TRUE(plan_of(sharing(8, 255, 100)).prefixes.empty());        // no whole span
  EXPECT_TRUE(plan_of(sharing(1, 2000, 100)).prefixes.empty());       // nobody to share with
  EXPECT_TRUE(plan_of(sharing(3, 2000, 100, 32)).prefixes.empty());   // units are full by themselves
  EXPECT_TRUE(plan_of(sharing(2, 2000, 100, 20)).prefixes.empty());   // 160 rows: two units either way
  EXPECT_FALSE(plan_of(sharing(3, 2000, 100, 20)).prefixes.empty());  // 240 rows: two in place of three
  EXPECT_FALSE(plan_of(sharing(2, 256, 100)).prefixes.empty());
}

TEST(SpanPlan, AWindowThatEndsBeforeThePrefixReadsItAlone) {
  Sequences s = sharing(8, 2000, 600);
  const PlanShape shape = {2, 4, kWidth, 2, true};
  EXPECT_TRUE(plan_for(s, shape, 700).prefixes.empty());
  const Plan plan = plan_for(s, shape, 1000);  // from token 1600 on
  expect_complete(s, shape, plan);
  ASSERT_EQ(plan.prefixes.size(), 1u);
  EXPECT_EQ(plan.prefixes[0].first_span, 6);
  EXPECT_EQ(plan.prefixes[0].end_span, 7);
}

// The memory for partials has a bound, however much is shared by however many rows. Beyond it, members read alone.
TEST(SpanPlan, PartialsTakeBoundedMemory) {
  const PlanShape shape = {8, 8, 128, 64, true};
  for (const int32_t members : {64, 1000, 4000}) {
    Sequences s = sharing(members, 8192, 100);
    const Plan plan = plan_for(s, shape);
    EXPECT_LE(plan.partial_floats, kMaxPartials + (int64_t{1} << 20)) << members;  // and one row block's, cut before
    EXPECT_EQ(plan.prefixes.size(), members < 4000 ? 1u : 0u) << members;
  }
}

}  // namespace
}  // namespace mortise::span_cpu
