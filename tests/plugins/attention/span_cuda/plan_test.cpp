// Plans, without a GPU: every row, head and span is computed exactly once, whoever gets it.
#include "attention/span_cuda/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

namespace mortise::span_cuda::plan_test {
namespace {

struct Sequence {
  int32_t rows, length;  // length 0: padding
};

struct Batch {
  explicit Batch(const std::vector<Sequence>& sequences) {
    starts = {0};
    for (const Sequence& sequence : sequences) {
      starts.push_back(starts.back() + sequence.rows);
      lengths.push_back(sequence.length);
    }
    view.num_seqs = static_cast<int32_t>(sequences.size());
    view.num_tokens = starts.back();
    view.block_size = 16;
    view.max_blocks = 2000;
    view.cu_seqlens_q = starts.data();
    view.seq_lens = lengths.data();
    blocks.resize(sequences.size() * static_cast<std::size_t>(view.max_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    view.block_table = blocks.data();
  }
  // Lets all sequences begin with the same blocks.
  void share(int32_t tokens) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto block = static_cast<int32_t>(i) % view.max_blocks;
      if (block < tokens / view.block_size) blocks[i] = block;
    }
  }
  std::vector<int32_t> starts, lengths, blocks;
  mortise_batch view{};
};

PlanShape shape(int32_t num_heads, int32_t num_kv_heads, int32_t window, int32_t workers) {
  return {num_heads, num_kv_heads, window, workers, int64_t{1} << 30, true};
}

using Unit = std::tuple<int32_t, int32_t, int32_t>;  // row of the batch, query head, span

// Units of a run into `seen`, each only once.
void add_units(const cuda::SpanRun& run, std::set<Unit>& seen) {
  for (int32_t token = 0; token < run.num_tokens; ++token) {
    for (int32_t head = 0; head < run.num_heads; ++head) {
      for (int32_t span = run.span_begin; span < run.span_end; ++span) {
        const bool added = seen.insert({run.row + token, run.head + head, span}).second;
        ASSERT_TRUE(added) << "row " << run.row + token << ", span " << span << " twice";
      }
    }
  }
}

void expect_complete(const std::vector<Sequence>& sequences, const PlanShape& shape, int32_t shared_tokens) {
  Batch batch(sequences);
  batch.share(shared_tokens);
  Plan plan;
  make_plan(batch.view, shape, plan);
  ASSERT_EQ(plan.worker_begin.size(), static_cast<std::size_t>(shape.num_workers) + 1);
  EXPECT_EQ(plan.worker_begin.front(), 0);
  EXPECT_EQ(plan.worker_begin.back(), static_cast<int32_t>(plan.runs.size()));
  EXPECT_LE(static_cast<int64_t>(plan.runs.size() + plan.prefill.size()),
            max_runs(shape, batch.view.num_tokens, batch.view.num_seqs));
  EXPECT_LE(plan.merges.size(), static_cast<std::size_t>(shape.num_workers));
  EXPECT_LE(plan.partial_rows, shape.partial_rows);
  std::set<Unit> seen;
  std::set<int32_t> padding;
  for (const cuda::SpanRun& run : plan.runs) {
    EXPECT_LE(run.num_tokens * run.num_heads, run.span_begin == run.span_end ? 1 << 20 : cuda::kDecodeRows);
    add_units(run, seen);
    for (int32_t i = 0; run.span_begin == run.span_end && i < run.num_tokens; ++i) padding.insert(run.row + i);
  }
  for (const cuda::SpanRun& run : plan.prefill) {
    EXPECT_LE(run.num_tokens * run.num_heads, cuda::kPrefillRows);
    EXPECT_EQ(run.partial, -1);
    add_units(run, seen);
  }
  for (std::size_t seq = 0; seq < sequences.size(); ++seq) {
    for (int32_t i = 0; i < sequences[seq].rows; ++i) {
      const int32_t row = batch.starts[seq] + i;
      if (sequences[seq].length == 0) {
        EXPECT_EQ(padding.count(row), 1u) << "row " << row << " is not written";
        continue;
      }
      const int32_t position = sequences[seq].length - sequences[seq].rows + i;
      const int32_t low = shape.window > 0 ? std::max(0, position - shape.window + 1) : 0;
      for (int32_t head = 0; head < shape.num_heads; ++head) {
        for (int32_t span = low / cuda::kSpan; span <= position / cuda::kSpan; ++span) {
          ASSERT_EQ(seen.count({row, head, span}), 1u) << "row " << row << ", head " << head << ", span " << span;
        }
      }
    }
  }
}

TEST(CudaPlan, EverySpanOfEveryRowIsComputedOnce) {
  std::mt19937 rng(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<Sequence> sequences;
    for (std::size_t i = 0, n = 1 + rng() % 9; i < n; ++i) {
      const int32_t rows = static_cast<int32_t>(rng() % (rng() % 3 == 0 ? 300 : 8) + 1);
      sequences.push_back({rows, rng() % 5 == 0 ? 0 : rows + static_cast<int32_t>(rng() % 4000)});
    }
    const int32_t kv_heads = static_cast<int32_t>(1 + rng() % 3), group = static_cast<int32_t>(1 + rng() % 20);
    const int32_t window = rng() % 2 == 0 ? 0 : static_cast<int32_t>(1 + rng() % 1000);
    PlanShape s = shape(kv_heads * group, kv_heads, window, static_cast<int32_t>(1 + rng() % 300));
    s.prefill = rng() % 3 != 0;
    if (rng() % 3 == 0) s.partial_rows = static_cast<int64_t>(rng() % 500);
    expect_complete(sequences, s, rng() % 2 == 0 ? 0 : 1024);
  }
}

// Partials lie side by side, in the order in which they merge.
TEST(CudaPlan, PartialsOfACutTileFollowEachOther) {
  const Batch batch({{1, 32000}, {2, 5000}, {1, 77}});
  Plan plan;
  make_plan(batch.view, shape(32, 8, 0, 1056), plan);
  std::map<int32_t, int32_t> next;  // by the merge's first row: where the next partial is expected
  std::size_t m = 0;
  int64_t rows = 0;
  for (const cuda::SpanRun& run : plan.runs) {
    if (run.partial < 0) continue;
    if (run.span_begin == 0) {
      const cuda::SpanMerge& merge = plan.merges.at(m++);
      EXPECT_EQ(merge.partial, run.partial);
      EXPECT_EQ(merge.row, run.row);
      EXPECT_EQ(merge.head, run.head);
      EXPECT_EQ(run.partial, rows);
      rows += run.num_tokens * run.num_heads;
    } else {
      EXPECT_EQ(run.partial, rows);
      rows += int64_t{run.span_end - run.span_begin} * run.num_tokens * run.num_heads;
    }
  }
  EXPECT_EQ(m, plan.merges.size());
  EXPECT_EQ(rows, plan.partial_rows);
  EXPECT_GT(m, 0u);
}

// Chunks of 16 keys of the busiest and of the idlest worker.
std::pair<int32_t, int32_t> shares(const Plan& plan) {
  int32_t least = 1 << 30, most = 0;
  for (std::size_t w = 0; w + 1 < plan.worker_begin.size(); ++w) {
    int32_t chunks = 0;
    for (int32_t i = plan.worker_begin[w]; i < plan.worker_begin[w + 1]; ++i) {
      const cuda::SpanRun& run = plan.runs[static_cast<std::size_t>(i)];
      const int32_t end = std::min(run.span_end * cuda::kSpanChunks, run.position / cuda::kKeyChunk + 1);
      chunks += end - run.span_begin * cuda::kSpanChunks;
    }
    least = std::min(least, chunks);
    most = std::max(most, chunks);
  }
  return {least, most};
}

TEST(CudaPlan, WorkersGetEqualShares) {
  for (const std::size_t count : {1u, 7u, 64u, 100u}) {
    const Batch batch(std::vector<Sequence>(count, Sequence{1, 2200}));
    Plan plan;
    make_plan(batch.view, shape(32, 8, 0, 100), plan);
    const auto [least, most] = shares(plan);
    EXPECT_LE(most - least, 2 * cuda::kSpanChunks) << count;  // more: the largest share is the kernel's time
  }
}

TEST(CudaPlan, ManyEqualTilesAreNotCut) {
  const Batch batch(std::vector<Sequence>(256, Sequence{1, 2200}));
  Plan plan;
  make_plan(batch.view, shape(32, 8, 0, 1056), plan);  // 2048 tiles, two for nearly every worker
  EXPECT_TRUE(plan.merges.empty());
  EXPECT_EQ(shares(plan).second, 2 * 138);
}

TEST(CudaPlan, TilesOfCommonBlocksAreCutAlike) {
  Batch batch(std::vector<Sequence>(16, Sequence{1, 8400}));
  const PlanShape s = shape(32, 8, 0, 264);
  Plan plan;
  make_plan(batch.view, s, plan);
  EXPECT_TRUE(plan.merges.empty());  // 128 tiles on half of the workers, which read as fast as memory gives
  batch.share(8192);
  make_plan(batch.view, s, plan);
  EXPECT_EQ(plan.merges.size(), 128u);
  ASSERT_EQ(plan.runs.size(), 256u);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    EXPECT_EQ(plan.runs[i].span_begin, i % 2 == 0 ? 0 : 33);
    EXPECT_EQ(plan.runs[i].span_end, i % 2 == 0 ? 33 : 66);
  }
  PlanShape narrow = s;
  narrow.partial_rows = 1000;  // too few to cut alike, or at all
  make_plan(batch.view, narrow, plan);
  EXPECT_TRUE(plan.merges.empty());
}

TEST(CudaPlan, WithoutRoomForPartialsNoTileIsCut) {
  const Batch batch({{1, 32000}, {1, 100}});
  PlanShape s = shape(32, 8, 0, 100);
  s.partial_rows = 10;
  Plan plan;
  make_plan(batch.view, s, plan);
  EXPECT_TRUE(plan.merges.empty());
  for (const cuda::SpanRun& run : plan.runs) EXPECT_EQ(run.partial, -1);
}

TEST(CudaPlan, WholeTilesAreNotCutAndComeToWorkersOfTheirOwn) {
  const Batch batch({{1, 256}, {1, 130}, {1, 0}, {1, 7}});
  PlanShape s = shape(8, 2, 0, 100);
  s.prefill = false;
  s.num_workers = 32;
  Plan plan;
  make_plan(batch.view, s, plan);
  EXPECT_FALSE(plan.merges.empty());
  s.whole_tiles = true;
  make_plan(batch.view, s, plan);
  EXPECT_TRUE(plan.merges.empty());
  ASSERT_EQ(plan.worker_begin.size(), 33u);
  for (std::size_t worker = 0; worker < 32; ++worker) {
    const auto first = plan.runs.begin() + plan.worker_begin[worker],
               last = plan.runs.begin() + plan.worker_begin[worker + 1];
    EXPECT_LE(std::count_if(first, last, [](const cuda::SpanRun& run) { return run.span_end > run.span_begin; }), 1);
    EXPECT_TRUE(std::all_of(first, last, [](const cuda::SpanRun& run) { return run.partial == -1; }));
  }
}

TEST(CudaPlan, FewDraftsHaveTilesOfHalfTheRows) {
  const auto largest = [](const std::vector<Sequence>& sequences) {
    Plan plan;
    make_plan(Batch(sequences).view, shape(32, 8, 0, 264), plan);
    int32_t rows = 0;
    for (const cuda::SpanRun& run : plan.runs) rows = std::max<int32_t>(rows, run.num_tokens * run.num_heads);
    return rows;
  };
  EXPECT_EQ(largest({{6, 200}}), 8);
  EXPECT_EQ(largest({{6, 2800}}), 8);
  EXPECT_EQ(largest({{6, 2900}}), 16);                                  // more than two spans for each worker
  EXPECT_EQ(largest(std::vector<Sequence>(32, Sequence{6, 200})), 16);  // more tiles than workers
}

TEST(CudaPlan, OfABucketAllWorkIsDecoding) {
  const Batch batch({{100, 100}, {1, 8}, {4, 0}});
  PlanShape s = shape(32, 8, 0, 100);
  s.prefill = false;
  Plan plan;
  make_plan(batch.view, s, plan);
  EXPECT_TRUE(plan.prefill.empty());
  s.prefill = true;
  make_plan(batch.view, s, plan);
  EXPECT_FALSE(plan.prefill.empty());
}

}  // namespace
}  // namespace mortise::span_cuda::plan_test
