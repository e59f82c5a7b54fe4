// Plans with shared spans, without a GPU: every row has each of its spans exactly once, from the blocks of its own
// sequence, and what merges into it follows each other from the first span that it sees to its last.
#include "attention/span_cuda/share.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "groups.hpp"

namespace mortise::span_cuda::share_test {
namespace {

constexpr int32_t kBlockSize = 16, kMaxBlocks = 400;

struct Sequence {
  int32_t rows, length;  // length 0: padding
  int32_t shared_with = -1, shared = 0;
};

struct Batch {
  explicit Batch(const std::vector<Sequence>& sequences) {
    int32_t next = 0;
    for (const Sequence& sequence : sequences) {
      starts.push_back(starts.back() + sequence.rows);
      lengths.push_back(sequence.length);
      const std::size_t first = blocks.size();
      for (int32_t i = 0; i < kMaxBlocks; ++i) {
        const bool shared = (i + 1) * kBlockSize <= sequence.shared;
        blocks.push_back(shared ? blocks[static_cast<std::size_t>(sequence.shared_with * kMaxBlocks + i)] : next++);
      }
      EXPECT_EQ(blocks.size(), first + kMaxBlocks);
    }
    view.num_seqs = static_cast<int32_t>(sequences.size());
    view.num_tokens = starts.back();
    view.block_size = kBlockSize;
    view.max_blocks = kMaxBlocks;
    view.cu_seqlens_q = starts.data();
    view.seq_lens = lengths.data();
    view.block_table = blocks.data();
    groups = std::make_unique<test::Groups>(view);
  }
  int32_t position(int32_t row) const {
    const auto seq = static_cast<std::size_t>(sequence(row));
    return lengths[seq] - (starts[seq + 1] - row);
  }
  int32_t sequence(int32_t row) const {
    return static_cast<int32_t>(std::upper_bound(starts.begin(), starts.end(), row) - starts.begin()) - 1;
  }
  std::vector<int32_t> starts = {0}, lengths, blocks;
  mortise_batch view{};
  std::unique_ptr<test::Groups> groups;
};

PlanShape shape(int32_t num_heads, int32_t num_kv_heads, int32_t window) {
  PlanShape s{num_heads, num_kv_heads, window, 264, int64_t{1} << 30, true};
  s.num_shared_blocks = 264;
  s.max_shared_rows = s.max_shared_runs = 1 << 20;
  return s;
}

struct Partial {
  int32_t row, head, begin, end;  // spans
};

// Who writes which row of the partials, each only once.
class Written {
 public:
  Written(const Batch& batch, const PlanShape& shape, const Plan& plan)
      : batch_(batch), group_(shape.num_heads / shape.num_kv_heads) {
    for (const cuda::SharedRun& run : plan.shared_runs) add_shared(run, plan);
    for (const cuda::SpanRun& run : plan.runs) {
      if (run.partial >= 0) add_own(run, shape.window);
    }
  }
  const Partial* at(int32_t partial) const {
    const auto found = partials_.find(partial);
    return found == partials_.end() ? nullptr : &found->second;
  }
  std::size_t size() const { return partials_.size(); }

 private:
  void add(int32_t at, const Partial& partial) {
    EXPECT_TRUE(partials_.emplace(at, partial).second) << "partial " << at << " is written twice";
  }
  void add_shared(const cuda::SharedRun& run, const Plan& plan) {
    EXPECT_LE(run.num_rows, cuda::kSharedRows);
    EXPECT_LT(run.span_begin, run.span_end);
    for (int32_t i = run.first_row; i < run.first_row + run.num_rows; ++i) {
      const cuda::SharedRow& row = plan.shared_rows.at(static_cast<std::size_t>(i));
      EXPECT_EQ(row.position, batch_.position(row.row));
      const int32_t table = batch_.sequence(row.row) * kMaxBlocks;
      for (int32_t b = run.span_begin * 8; b < run.span_end * 8; ++b) {
        ASSERT_EQ(batch_.blocks[static_cast<std::size_t>(table + b)],
                  batch_.blocks[static_cast<std::size_t>(run.table + b)]);
      }
      const int32_t head = run.kv_head * group_ + row.head;
      const int32_t first = row.partial + run.kv_head * row.kv_head_stride;
      if (run.folds != 0) {
        add(first + run.partial * row.partial_stride, {row.row, head, run.span_begin, run.span_end});
        continue;
      }
      for (int32_t span = run.span_begin; span < run.span_end; ++span) {
        const int32_t partial = run.partial + span - run.span_begin;
        add(first + partial * row.partial_stride, {row.row, head, span, span + 1});
      }
    }
  }
  void add_own(const cuda::SpanRun& run, int32_t window) {
    const int32_t first = window > 0 ? std::max(0, run.position - window + 1) / cuda::kSpan : 0;
    const int32_t rows = run.num_tokens * run.num_heads;
    for (int32_t i = 0; i < rows; ++i) {
      const int32_t row = run.row + i / run.num_heads, head = run.head + i % run.num_heads;
      if (run.span_begin == first) {
        add(run.partial + i, {row, head, run.span_begin, run.span_end});
        continue;
      }
      for (int32_t span = run.span_begin; span < run.span_end; ++span) {
        add(run.partial + (span - run.span_begin) * rows + i, {row, head, span, span + 1});
      }
    }
  }

  const Batch& batch_;
  const int32_t group_;
  std::map<int32_t, Partial> partials_;
};

void expect_right(const Batch& batch, const PlanShape& shape, const Plan& plan) {
  const Written written(batch, shape, plan);
  std::set<std::pair<int32_t, int32_t>> done;  // row, head
  std::size_t used = 0;
  for (const cuda::SpanMerge& merge : plan.merges) {
    const int32_t rows = merge.num_tokens * merge.num_heads;
    for (int32_t i = 0; i < rows; ++i) {
      const int32_t row = merge.row + i / merge.num_heads, head = merge.head + i % merge.num_heads;
      EXPECT_TRUE(done.insert({row, head}).second);
      const int32_t position = batch.position(row);
      int32_t next = shape.window > 0 ? std::max(0, position - shape.window + 1) / cuda::kSpan : 0;
      for (int32_t n = 0; n < merge.count; ++n, ++used) {
        const Partial* partial = written.at(merge.partial + n * rows + i);
        ASSERT_NE(partial, nullptr) << "row " << row << ", head " << head << ", partial " << n;
        EXPECT_EQ(partial->row, row);
        EXPECT_EQ(partial->head, head);
        if (n == 0) {
          EXPECT_LE(partial->begin, next);
        } else {
          EXPECT_EQ(partial->begin, next);
          EXPECT_EQ(partial->end, next + 1);  // only what begins with the first span may be folded
        }
        next = partial->end;
      }
      EXPECT_GE(next, position / cuda::kSpan + 1);
    }
  }
  EXPECT_EQ(used, written.size());
  EXPECT_EQ(static_cast<int64_t>(used), plan.partial_rows);
  for (const cuda::SpanRun& run : plan.runs) {
    if (run.partial >= 0 || run.span_begin == run.span_end) continue;
    EXPECT_EQ(run.span_begin, shape.window > 0 ? std::max(0, run.position - shape.window + 1) / cuda::kSpan : 0);
    for (int32_t i = 0; i < run.num_tokens * run.num_heads; ++i) {
      EXPECT_TRUE(done.insert({run.row + i / run.num_heads, run.head + i % run.num_heads}).second);
    }
  }
  std::size_t decode_rows = 0;
  for (int32_t seq = 0; seq < batch.view.num_seqs; ++seq) {
    if (!is_decode(batch.view, shape, seq)) continue;
    decode_rows += static_cast<std::size_t>(batch.starts[static_cast<std::size_t>(seq) + 1] -
                                            batch.starts[static_cast<std::size_t>(seq)]);
  }
  EXPECT_EQ(done.size(), decode_rows * static_cast<std::size_t>(shape.num_heads));
  EXPECT_LE(plan.partial_rows, shape.partial_rows);
  EXPECT_LE(static_cast<int64_t>(plan.merges.size()), max_merges(shape, batch.view.num_tokens, batch.view.num_seqs));
  EXPECT_LE(static_cast<int64_t>(plan.runs.size() + plan.prefill.size()),
            max_runs(shape, batch.view.num_tokens, batch.view.num_seqs));
  EXPECT_LE(static_cast<int64_t>(plan.shared_rows.size()), shape.max_shared_rows);
  EXPECT_LE(static_cast<int64_t>(plan.shared_runs.size()), shape.max_shared_runs);
}

TEST(SharePlan, EveryRowHasEachOfItsSpansOnceAndInOrder) {
  std::mt19937 rng(31);
  int32_t sharing = 0, nested = 0;
  for (int round = 0; round < 150; ++round) {
    std::vector<Sequence> sequences;
    for (int32_t i = 0, n = static_cast<int32_t>(2 + rng() % 40); i < n; ++i) {
      Sequence sequence{};
      if (i > 0 && rng() % 6 != 0) {
        sequence.shared_with = static_cast<int32_t>(rng() % static_cast<uint32_t>(i));
        sequence.shared = static_cast<int32_t>(
            rng() % static_cast<uint32_t>(sequences[static_cast<std::size_t>(sequence.shared_with)].length + 1));
      }
      sequence.length = sequence.shared + 1 + static_cast<int32_t>(rng() % (rng() % 3 == 0 ? 1500 : 300));
      sequence.length = std::min(sequence.length, kMaxBlocks * kBlockSize);
      sequence.rows = std::min(sequence.length, static_cast<int32_t>(1 + rng() % (rng() % 6 == 0 ? 100 : 5)));
      if (rng() % 9 == 0) sequence = {2, 0};
      sequences.push_back(sequence);
    }
    const Batch batch(sequences);
    const int32_t kv_heads = static_cast<int32_t>(1 + rng() % 3), group = static_cast<int32_t>(1 + rng() % 20);
    PlanShape s = shape(kv_heads * group, kv_heads, rng() % 2 == 0 ? 0 : static_cast<int32_t>(1 + rng() % 1000));
    s.num_workers = static_cast<int32_t>(1 + rng() % 264);
    s.num_shared_blocks = static_cast<int32_t>(1 + rng() % 132);
    s.prefill = rng() % 3 != 0;
    if (rng() % 4 == 0) s.partial_rows = static_cast<int64_t>(rng() % 3000);
    if (rng() % 4 == 0) s.max_shared_rows = static_cast<int64_t>(rng() % 300);
    Plan plan;
    make_plan(batch.view, s, plan);
    expect_right(batch, s, plan);
    if (testing::Test::HasFailure()) FAIL() << "round " << round;
    sharing += plan.shared_runs.empty() ? 0 : 1;
    for (const cuda::SharedRun& run : plan.shared_runs) nested += run.folds == 0 ? 1 : 0;
  }
  EXPECT_GT(sharing, 50);
  EXPECT_GT(nested, 50);
}

std::vector<Sequence> one_group(int32_t members, int32_t shared, int32_t length) {
  std::vector<Sequence> sequences;
  for (int32_t i = 0; i < members; ++i) sequences.push_back({1, length, i == 0 ? -1 : 0, i == 0 ? 0 : shared});
  return sequences;
}

TEST(SharePlan, ASpanIsReadOnceForSixtyFourRows) {
  const Batch batch(one_group(64, 2000, 2208));
  const PlanShape s = shape(32, 8, 0);
  Plan plan;
  make_plan(batch.view, s, plan);
  expect_right(batch, s, plan);
  int32_t spans = 0;
  for (const cuda::SharedRun& run : plan.shared_runs) spans += run.span_end - run.span_begin;
  EXPECT_EQ(spans, 64 * 4 / 64 * 8 * 15);  // more: some are read again
  for (const cuda::SpanRun& run : plan.runs) EXPECT_GE(run.span_begin, 15);
}

// As many tiles as blocks: each has one from its first span to the last, and leaves one partial.
TEST(SharePlan, WhereTilesFillTheBlocksNoneIsCut) {
  const Batch batch(one_group(256, 2000, 2208));
  Plan plan;
  make_plan(batch.view, shape(32, 8, 0), plan);
  for (const cuda::SharedRun& run : plan.shared_runs) {
    EXPECT_EQ(run.span_begin, 0);
    EXPECT_EQ(run.span_end, 15);
  }
}

TEST(SharePlan, NothingIsSharedByOneOrBelowASpan) {
  Plan plan;
  for (const Batch& batch : {Batch(one_group(1, 0, 2000)), Batch(one_group(8, 127, 200))}) {
    make_plan(batch.view, shape(32, 8, 0), plan);
    EXPECT_TRUE(plan.shared_runs.empty());
    PlanShape paged = shape(32, 8, 0);
    paged.num_shared_blocks = 0;
    Plan without;
    make_plan(batch.view, paged, without);
    EXPECT_EQ(plan.runs.size(), without.runs.size());  // as paged does
    EXPECT_EQ(plan.merges.size(), without.merges.size());
  }
}

// A prompt that is shared to its last token, which is computed once more.
TEST(SharePlan, EachRowKeepsASpanOfItsOwn) {
  const Batch batch(one_group(4, 512, 512));
  const PlanShape s = shape(8, 2, 0);
  Plan plan;
  make_plan(batch.view, s, plan);
  expect_right(batch, s, plan);
  ASSERT_FALSE(plan.shared_runs.empty());
  for (const cuda::SharedRun& run : plan.shared_runs) EXPECT_LE(run.span_end, 3);
}

TEST(SharePlan, WithoutRoomForPartialsNothingIsShared) {
  const Batch batch(one_group(16, 1024, 1100));
  PlanShape s = shape(32, 8, 0);
  s.partial_rows = 16 * 32 - 1;
  Plan plan;
  make_plan(batch.view, s, plan);
  EXPECT_TRUE(plan.shared_runs.empty());
  expect_right(batch, s, plan);
}

}  // namespace
}  // namespace mortise::span_cuda::share_test
