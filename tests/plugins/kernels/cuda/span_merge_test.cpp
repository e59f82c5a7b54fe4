// The merge kernel alone: partials of any number, tiles of any number of rows, and what is merged has the bits of a
// fold on the host, partial after partial.
// Covers: plugins/kernels/cuda/{span_math,span_merge,span_rows}
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "attention/span_cuda/plan.hpp"
#include "gpu.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_math.cuh"
#include "world.hpp"

namespace mortise::test::span_merge_test {
namespace {

constexpr int32_t kTokens = 700, kHeads = 3;  // of out

struct Problem {
  int32_t head_dim;
  std::vector<cuda::SpanMerge> merges;
  std::vector<float> o;
  std::vector<float2> stats;

  std::size_t out_at(const cuda::SpanMerge& merge, int32_t row, int32_t column) const {
    const int32_t token = merge.row + row / merge.num_heads, head = merge.head + row % merge.num_heads;
    return (static_cast<std::size_t>(token) * kHeads + static_cast<std::size_t>(head)) *
               static_cast<std::size_t>(head_dim) +
           static_cast<std::size_t>(column);
  }
};

// Each tile has tokens of its own. Some partials are of rows that see nothing, some of rows with a NaN among their
// scores.
Problem random_problem(int32_t head_dim, std::vector<int32_t> counts, std::mt19937& rng) {
  Problem problem{head_dim, {}, {}, {}};
  std::normal_distribution<float> normal(0, 3);
  int32_t row = 0;
  for (const int32_t count : counts) {
    cuda::SpanMerge merge{};
    merge.row = row;
    merge.num_heads = static_cast<int16_t>(1 + rng() % kHeads);
    merge.num_tokens = static_cast<int16_t>(1 + rng() % (cuda::kDecodeRows / merge.num_heads));
    merge.head = static_cast<int32_t>(rng() % static_cast<uint32_t>(kHeads + 1 - merge.num_heads));
    merge.partial = static_cast<int32_t>(problem.stats.size());
    merge.count = count;
    row += merge.num_tokens;
    problem.merges.push_back(merge);
    const int32_t rows = merge.num_tokens * merge.num_heads;
    const auto nan_row = static_cast<int32_t>(rng() % 40);
    for (int32_t i = 0; i < count * rows; ++i) {
      const bool nan = i % rows == nan_row && rng() % 4 == 0, nothing = !nan && rng() % 9 == 0;
      float2 stats = {std::ceil(60 * normal(rng)), std::exp2(normal(rng))};  // far enough apart for the factor 2^-126
      if (nothing) stats = {-std::numeric_limits<float>::infinity(), 0.0f};
      if (nan) stats = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()};
      problem.stats.push_back(stats);
      for (int32_t c = 0; c < head_dim; ++c) problem.o.push_back(nothing ? 0.0f : normal(rng));
    }
  }
  EXPECT_LE(row, kTokens);
  return problem;
}

std::vector<uint16_t> folded(const Problem& problem, std::vector<uint16_t> out) {
  using cuda::span::merged;
  const cpu::DenormalsOff off;
  for (const cuda::SpanMerge& merge : problem.merges) {
    const int32_t rows = merge.num_tokens * merge.num_heads;
    for (int32_t row = 0; row < rows; ++row) {
      float m = -std::numeric_limits<float>::infinity(), sum = 0;
      std::vector<float> o(static_cast<std::size_t>(problem.head_dim), 0.0f);
      for (int32_t i = 0; i < merge.count; ++i) {
        const auto at = static_cast<std::size_t>(merge.partial + i * rows + row);
        const cuda::span::MergeFactors w = cuda::span::merge_factors(m, problem.stats[at].x);
        m = w.m;
        sum = merged(sum, problem.stats[at].y, w);
        for (std::size_t c = 0; c < o.size(); ++c) o[c] = merged(o[c], problem.o[at * o.size() + c], w);
      }
      for (std::size_t c = 0; c < o.size(); ++c) {
        out[problem.out_at(merge, row, static_cast<int32_t>(c))] =
            narrow(cuda::span::normalised(o[c], cuda::span::inverse(sum)));
      }
    }
  }
  return out;
}

std::vector<uint16_t> merged_on_gpu(const Problem& problem, const std::vector<uint16_t>& before, int32_t num_blocks) {
  DeviceArray<uint16_t> out(before);
  const DeviceArray<float> o(problem.o);
  const DeviceArray<float2> stats(problem.stats);
  const DeviceArray<cuda::SpanMerge> merges(problem.merges);
  span_cuda::Plan plan{};
  plan.merges = problem.merges;
  const cuda::SpanMergeCounts counts = merge_counts(plan, problem.head_dim);
  const DeviceArray<cuda::SpanMergeCounts> device_counts(std::vector<cuda::SpanMergeCounts>{counts});
  cuda::SpanArgs args{};
  args.layout = cuda::make_span_layout(1, 1, problem.head_dim, 16);
  args.out = out.data();
  args.out_row_stride = kHeads * problem.head_dim;
  args.out_head_stride = problem.head_dim;
  args.partials = o.data();
  args.partial_stats = stats.data();
  check_cuda(cuda::span_merge(args, merges.data(), device_counts.data(), num_blocks, nullptr), "merge");
  check_cuda(cudaDeviceSynchronize(), "run");
  return out.values();
}

// Where the first difference is; empty if there is none.
std::string difference(const Problem& problem, const std::vector<uint16_t>& expected,
                       const std::vector<uint16_t>& actual) {
  for (std::size_t n = 0; n < problem.merges.size(); ++n) {
    const cuda::SpanMerge& merge = problem.merges[n];
    for (int32_t row = 0; row < merge.num_tokens * merge.num_heads; ++row) {
      for (int32_t c = 0; c < problem.head_dim; ++c) {
        const std::size_t at = problem.out_at(merge, row, c);
        if (expected[at] == actual[at]) continue;
        return "merge " + std::to_string(n) + " of " + std::to_string(merge.count) + " partials, row " +
               std::to_string(row) + " of " + std::to_string(merge.num_tokens) + " x " +
               std::to_string(merge.num_heads) + ", column " + std::to_string(c) + ": expected bits " +
               std::to_string(expected[at]) + ", are " + std::to_string(actual[at]);
      }
    }
  }
  return expected == actual ? "" : "something else was written";
}

class Merge : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override { MORTISE_NEEDS_GPU(); }
  void expect_equal(const std::vector<int32_t>& counts, std::mt19937& rng, int32_t num_blocks) {
    const Problem problem = random_problem(GetParam(), counts, rng);
    const std::vector<uint16_t> before(
        static_cast<std::size_t>(kTokens) * kHeads * static_cast<std::size_t>(GetParam()), 0xabcd);
    EXPECT_EQ(difference(problem, folded(problem, before), merged_on_gpu(problem, before, num_blocks)), "");
  }
};

TEST_P(Merge, OfEveryNumberOfPartialsGivesTheBitsOfAFold) {
  std::mt19937 rng(5);
  for (int32_t count = 1; count <= 70; ++count) {
    SCOPED_TRACE(count);
    expect_equal({count, count, count}, rng, 2);
  }
  for (const int32_t count : {95, 96, 97, 128, 250, 1000}) {
    SCOPED_TRACE(count);
    expect_equal({count}, rng, 3);
  }
}

TEST_P(Merge, OfTilesOfDifferentNumbersInOneLaunchToo) {
  std::mt19937 rng(6);
  for (const int32_t num_blocks : {1, 7, 528}) {
    SCOPED_TRACE(num_blocks);
    std::vector<int32_t> counts;
    for (int i = 0; i < 40; ++i) counts.push_back(static_cast<int32_t>(1 + rng() % (rng() % 3 == 0 ? 100 : 20)));
    expect_equal(counts, rng, num_blocks);
  }
}

TEST_P(Merge, OfNothingWritesNothing) {
  std::mt19937 rng(7);
  expect_equal({}, rng, 4);
}

INSTANTIATE_TEST_SUITE_P(HeadDims, Merge, testing::ValuesIn(cuda::kSpanHeadDims));

}  // namespace
}  // namespace mortise::test::span_merge_test
