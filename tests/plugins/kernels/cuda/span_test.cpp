// The span kernels: whoever computes a row, it has the bits of the reference; and the reference is near to the real
// numbers.
// Covers: plugins/kernels/cuda/{span,span_decode,span_math,span_mma,span_own,span_prefill,span_ring,span_rows}
// With MORTISE_CUDA_ISA=sm_80 the kernels of compute capability 8.
// Covers: plugins/kernels/cuda/{span_head_dim,span_stage,span_warpgroup,wgmma} plugins/kernels/cuda/reference/span
// Covers: plugins/kernels/cuda/{copy_async,span_kernels,span_tiles}
#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/cuda/span_math.cuh"
#include "span_shape.hpp"
#include "world.hpp"

namespace mortise::test::span_test {
namespace {

// The first row that differs, as a text; empty if there is none. Only rows that are in both.
std::string difference(const Rows& expected, const Rows& actual) {
  for (const auto& [key, row] : actual) {
    const auto found = expected.find(key);
    if (found == expected.end() || found->second == row) continue;
    const std::size_t at =
        static_cast<std::size_t>(std::mismatch(row.begin(), row.end(), found->second.begin()).first - row.begin());
    return "sequence " + std::to_string(key.seq) + ", position " + std::to_string(key.position) + ", element " +
           std::to_string(at) + " of " + std::to_string(row.size()) + ": expected " +
           std::to_string(widen(found->second[at])) + ", is " + std::to_string(widen(row[at]));
  }
  return {};
}

std::vector<Chunk> whole(const Config& config) {
  std::vector<Chunk> batch;
  for (std::size_t i = 0; i < config.lengths.size(); ++i) {
    batch.push_back({static_cast<int32_t>(i), 0, config.lengths[i]});
  }
  return batch;
}

// Decodes and drafts of 1 to 8 rows at the ends of sequences, and padding.
std::vector<Chunk> drafts(const Config& config, std::mt19937& rng) {
  std::vector<Chunk> batch;
  for (std::size_t i = 0; i < config.lengths.size(); ++i) {
    const int32_t count = std::min(config.lengths[i], static_cast<int32_t>(1 + rng() % 8));
    const auto seq = static_cast<int32_t>(i);
    batch.push_back({seq, config.lengths[i] - count, count});
    if (rng() % 3 == 0) batch.push_back({seq, 0, -static_cast<int32_t>(1 + rng() % 3)});
  }
  std::shuffle(batch.begin(), batch.end(), rng);
  return batch;
}

class Span : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override { MORTISE_NEEDS_GPU(); }
  Config config(std::vector<int32_t> lengths, uint32_t seed) const {
    const Shape& shape = GetParam();
    Config config;
    config.num_heads = shape.num_heads;
    config.num_kv_heads = shape.num_kv_heads;
    config.head_dim = shape.head_dim;
    config.block_size = shape.block_size;
    config.window = shape.window;
    config.cache = shape.cache;
    config.lengths = std::move(lengths);
    config.seed = seed;
    return config;
  }
};

TEST_P(Span, DecodeGivesTheBitsOfTheReference) {
  std::mt19937 rng(11);
  World world(config({1, 15, 16, 17, 127, 128, 129, 500, 1000, 1537, 3000}, 3));
  for (int round = 0; round < 4; ++round) {
    const std::vector<Chunk> batch = drafts(world.config(), rng);
    Rows rows;
    world.compute(batch, {.prefill = false, .num_blocks = 1 + static_cast<int32_t>(rng() % 40)}, rows);
    EXPECT_EQ(difference(world.reference(batch), rows), "") << "round " << round;
  }
}

TEST_P(Span, PrefillGivesTheBitsOfTheReference) {
  World world(config({1, 65, 200, 1025}, 5));
  const std::vector<Chunk> batch = whole(world.config());
  Rows rows;
  world.compute(batch, {.prefill = true}, rows);
  EXPECT_EQ(difference(world.reference(batch), rows), "");
}

// Chunks at arbitrary places, on either kernel, with all other sequences, in any order, on any number of workers.
TEST_P(Span, NeitherChunksNorCompanyNorWorkersChangeABit) {
  std::mt19937 rng(17);
  World world(config({1, 33, 700, 1300, 2999}, 7));
  const std::vector<int32_t>& lengths = world.config().lengths;
  Rows expected;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    world.compute({{static_cast<int32_t>(i), 0, lengths[i]}}, {}, expected);
  for (int round = 0; round < 3; ++round) {
    std::vector<int32_t> done(lengths.size(), 0);
    for (bool left = true; left;) {
      left = false;
      std::vector<Chunk> batch;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const int32_t count = std::min(lengths[i] - done[i], static_cast<int32_t>(rng() % (rng() % 2 == 0 ? 9 : 600)));
        if (count > 0) batch.push_back({static_cast<int32_t>(i), done[i], count});
        done[i] += count;
        left |= done[i] < lengths[i];
      }
      std::shuffle(batch.begin(), batch.end(), rng);
      Rows rows;
      Method method;
      method.prefill = rng() % 4 != 0;
      method.num_blocks = 1 + static_cast<int32_t>(rng() % 64);
      method.partial_rows = rng() % 4 == 0 ? 100 : 1 << 20;  // 100: tiles are not cut
      if (!batch.empty()) world.compute(batch, method, rows);
      ASSERT_EQ(difference(expected, rows), "") << "round " << round;
    }
  }
}

// Keys that a row does not see have P = 0, and 0 times a large number is 0: what later tokens hold, as large as may be,
// changes no bit of the rows before, whether it is in the tile or not.
TEST_P(Span, LargeValuesOfLaterTokensChangeNothing) {
  World world(config({70, 300}, 9));
  const std::vector<Chunk> batch = {{0, 0, 64}, {1, 0, 290}};
  Rows before;
  world.compute(batch, {}, before);
  for (const int32_t position : {64, 65, 69}) world.set_value(0, position, -3e38f);
  for (const int32_t position : {290, 291, 299}) world.set_value(1, position, 3e38f);
  Rows after;
  world.compute({{0, 0, 70}, {1, 0, 300}}, {}, after);
  EXPECT_EQ(difference(before, after), "");
}

TEST_P(Span, AgreesWithDoublePrecision) {
  World world(config({1, 130, 1100}, 13));
  const std::vector<Chunk> batch = {{0, 0, 1}, {1, 120, 10}, {2, 1092, 8}};
  Rows rows;
  world.compute(batch, {}, rows);
  for (const auto& [key, row] : rows) {
    const std::vector<double> exact = world.exact(key);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      error += std::pow(widen(row[i]) - exact[i], 2);
      size += exact[i] * exact[i];
    }
    EXPECT_LT(std::sqrt(error / size), GetParam().cache == cuda::SpanCache::kFp8    ? 1e-1
                                       : GetParam().cache == cuda::SpanCache::kInt8 ? 3e-2
                                                                                    : 1e-2)
        << "sequence " << key.seq << ", position " << key.position;
  }
}

TEST_P(Span, PaddingGivesZeros) {
  World world(config({40}, 15));
  Rows rows;
  world.compute({{0, 0, -20}, {0, 39, 1}, {0, 20, -5}}, {.num_blocks = 2}, rows);
  for (const auto& [key, row] : rows) {
    if (key.seq >= 0) continue;
    EXPECT_EQ(std::count(row.begin(), row.end(), 0), static_cast<std::ptrdiff_t>(row.size())) << key.position;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Span,
                         testing::Values(Shape{8, 2, 128, 16, 0},    // groups of 4, as Llama 3
                                         Shape{8, 1, 128, 64, 0},    // 8
                                         Shape{4, 4, 64, 16, 0},     // 1
                                         Shape{14, 2, 64, 32, 0},    // 7: rows of a tile left over
                                         Shape{24, 1, 64, 128, 0},   // 24: more than a tile of the decode kernel
                                         Shape{8, 2, 128, 32, 100},  // window within a span
                                         Shape{4, 4, 64, 16, 1},     // itself alone
                                         Shape{8, 2, 64, 16, 1024}, Shape{8, 2, 32, 16, 0}, Shape{24, 1, 32, 64, 100},
                                         Shape{4, 4, 80, 16, 0}, Shape{14, 2, 80, 128, 1024}, Shape{8, 2, 96, 16, 0},
                                         Shape{24, 1, 96, 32, 100}, Shape{8, 2, 192, 16, 0}, Shape{14, 2, 192, 64, 1},
                                         Shape{8, 2, 256, 16, 0}, Shape{24, 1, 256, 32, 1024},
                                         Shape{4, 4, 256, 128, 100}));

constexpr cuda::SpanCache kInt8 = cuda::SpanCache::kInt8;
constexpr cuda::SpanCache kFp8 = cuda::SpanCache::kFp8;
INSTANTIATE_TEST_SUITE_P(Fp8, Span,
                         testing::Values(Shape{8, 2, 32, 16, 0, kFp8}, Shape{24, 1, 64, 128, 0, kFp8},
                                         Shape{14, 2, 80, 32, 1024, kFp8}, Shape{8, 2, 128, 16, 0, kFp8},
                                         Shape{8, 2, 256, 16, 0, kFp8}));
INSTANTIATE_TEST_SUITE_P(Int8, Span,
                         testing::Values(Shape{8, 2, 32, 16, 0, kInt8}, Shape{24, 1, 64, 128, 0, kInt8},
                                         Shape{4, 4, 64, 16, 1, kInt8}, Shape{14, 2, 80, 32, 1024, kInt8},
                                         Shape{8, 2, 96, 16, 0, kInt8}, Shape{8, 2, 128, 16, 0, kInt8},
                                         Shape{8, 2, 128, 32, 100, kInt8}, Shape{14, 2, 192, 64, 0, kInt8},
                                         Shape{8, 2, 256, 16, 0, kInt8}));

// Sharp softmax: weights down to nothing, maxima that jump from span to span.
TEST(SpanExtremes, LargeScoresGiveTheBitsOfTheReference) {
  MORTISE_NEEDS_GPU();
  for (const float size : {30.0f, 1e4f, 1e30f}) {
    Config config;
    config.q_size = size;
    config.lengths = {900};
    World world(config);
    const std::vector<Chunk> batch = whole(config);
    Rows prefill, decode;
    world.compute(batch, {}, prefill);
    world.compute(batch, {.prefill = false, .num_blocks = 30}, decode);
    EXPECT_EQ(difference(world.reference(batch), prefill), "") << size;
    EXPECT_EQ(difference(prefill, decode), "") << size;
  }
}

// Tokens whose V was not finite make NaN of the rows that see them, on each kernel, and change no bit of the others,
// which share tiles with them.
TEST_P(Span, AValueThatIsNotFiniteReachesTheRowsThatSeeItAlone) {
  World world(config({400, 70}, 21));
  const std::vector<Chunk> batch = whole(world.config());
  Rows before;
  world.compute(batch, {}, before);
  const std::vector<int32_t> broken = {150, 300, 301};
  for (const int32_t position : broken) world.break_token(0, position);
  const auto sees = [&](RowKey row, int32_t position) {
    const int32_t window = world.config().window;
    return row.seq == 0 && position <= row.position && (window == 0 || position > row.position - window);
  };
  const Rows expected = world.reference(batch);
  int32_t touched = 0;
  for (const auto& [key, row] : expected) {
    if (std::any_of(broken.begin(), broken.end(), [&, key = key](int32_t position) { return sees(key, position); })) {
      ASSERT_TRUE(std::all_of(row.begin(), row.end(), [](Bf16 x) { return x == 0x7fc0; })) << key.position;
      ++touched;
    } else {
      ASSERT_EQ(row, before.at(key)) << "sequence " << key.seq << ", position " << key.position;
    }
  }
  EXPECT_GE(touched, 3);
  for (const bool prefill : {false, true}) {
    for (const int32_t num_blocks : {1, 8, 40}) {
      Rows rows;
      world.compute(batch, {.prefill = prefill, .num_blocks = num_blocks}, rows);
      EXPECT_EQ(difference(expected, rows), "") << "prefill " << prefill << ", " << num_blocks << " blocks";
    }
  }
}

// Scores that are all -infinity make the row NaN, however often it is merged with spans that it does not see.
TEST(SpanExtremes, ScoresOfMinusInfinityMakeARowNan) {
  MORTISE_NEEDS_GPU();
  EXPECT_TRUE(std::isnan(cuda::span::checked_sum(1.0f, -cuda::span::infinity())));
  EXPECT_TRUE(std::isnan(cuda::span::checked_sum(1.0f, cuda::span::infinity())));
  EXPECT_TRUE(std::isnan(cuda::span::checked_sum(1.0f, NAN)));
  EXPECT_EQ(cuda::span::checked_sum(0.0f, -cuda::span::infinity()), 0.0f);
  EXPECT_EQ(cuda::span::checked_sum(2.0f, 1.0f), 2.0f);
  EXPECT_EQ(cuda::span::checked_sum(2.0f, 0x1.fffffep29f), 2.0f);
  EXPECT_TRUE(std::isnan(cuda::span::checked_sum(2.0f, 0x1p30f)));
  EXPECT_TRUE(std::isnan(cuda::span::checked_sum(2.0f, -0x1p30f)));
  Config config;
  config.lengths = {300};
  World world(config);
  world.set_first_of_key(0, 0, -INFINITY);  // the first row sees this key alone
  const std::vector<Chunk> batch = whole(config);
  Rows prefill, decode;
  world.compute(batch, {}, prefill);
  world.compute(batch, {.prefill = false, .num_blocks = 30}, decode);
  const std::vector<Bf16>& first = prefill.at({0, 0});
  EXPECT_EQ(std::count(first.begin(), first.end(), 0x7fc0), static_cast<std::ptrdiff_t>(first.size()));
  EXPECT_EQ(difference(world.reference(batch), prefill), "");
  EXPECT_EQ(difference(prefill, decode), "");
}

// On the host: 2^(t' - m) within the error of the three terms and of y, and what lies more than 64 below m.
TEST(SpanExtremes, WeightsAreNearlyPowersOfTwo) {
  for (const float scale : {1.0f, 0.127517432f}) {
    for (const float m : {0.0f, -37.0f, 1000.0f}) {
      const cuda::span::WeightLine line = cuda::span::weight_line(scale, m);
      for (int i = 0; i <= 64000; ++i) {
        const float score = (m - static_cast<float>(i) / 1000.0f) / scale;
        const double exact = std::exp2(std::max(static_cast<double>(score) * scale - m, -64.0));
        ASSERT_NEAR(cuda::span::probability(score, line) / exact, 1.0, 1.06e-4) << "score " << score << ", m " << m;
      }
      EXPECT_EQ(cuda::span::probability(m / scale - 1e4f, line), 0x1p-64f);
      EXPECT_EQ(cuda::span::probability(-cuda::span::infinity(), line), 0x1p-64f);
    }
  }
  EXPECT_EQ(cuda::span::weight_exponent(3.25f, 1.0f), 4.0f);
  EXPECT_EQ(cuda::span::power_of_two(-3.0f), 0.125f);
  EXPECT_EQ(cuda::span::power_of_two(-cuda::span::infinity()), 0x1p-126f);
}

// The reference's weights are those of the formula, computed on the host; its sums are the sums of the rounded weights.
TEST(SpanExtremes, WeightsAndSumsOfTheReferenceAreThoseOfTheSpecification) {
  MORTISE_NEEDS_GPU();
  Config config;
  config.lengths = {700};
  config.q_size = 3;
  World world(config);
  const RowKey key = {0, 650};
  std::vector<Bf16> q_values = world.q_row(key);
  const DeviceArray<Bf16> q(q_values);
  DeviceArray<Bf16> out(q_values.size());
  const int32_t spans = key.position / cuda::kSpan + 1;
  std::vector<cuda::reference::SpanRow> list;
  for (int32_t head = 0; head < config.num_heads; ++head) list.push_back({0, 0, key.position, head, head / 4});
  const DeviceArray<cuda::reference::SpanRow> rows(list);
  const std::size_t n = list.size() * static_cast<std::size_t>(spans);
  DeviceArray<float> scores(n * cuda::kSpan);
  DeviceArray<Bf16> weights(n * cuda::kSpan);
  DeviceArray<float2> stats(n);
  const cuda::SpanArgs args = world.args(q, out);
  check_cuda(cuda::reference::span_rows(args, rows.data(), static_cast<int32_t>(list.size()),
                                        {spans, scores.data(), weights.data(), stats.data()}, nullptr),
             "reference");
  const std::vector<float> s = scores.values();
  const std::vector<Bf16> p = weights.values();
  const std::vector<float2> maxima_and_sums = stats.values();
  for (std::size_t i = 0; i < n; ++i) {
    const int32_t start = static_cast<int32_t>(i) % spans * cuda::kSpan;
    const int32_t seen = std::min(cuda::kSpan, key.position - start + 1);
    const float* t = &s[i * cuda::kSpan];
    const float m = std::ceil(*std::max_element(t, t + seen) * args.scale);
    EXPECT_EQ(m, maxima_and_sums[i].x);
    const cuda::span::WeightLine line = cuda::span::weight_line(args.scale, m);
    double sum = 0;
    for (int32_t k = 0; k < cuda::kSpan; ++k) {
      const Bf16 expected = k < seen ? narrow(cuda::span::probability(t[k], line)) : Bf16{0};
      ASSERT_EQ(p[i * cuda::kSpan + static_cast<std::size_t>(k)], expected) << "span " << i << ", key " << k;
      sum += widen(expected);
    }
    EXPECT_NEAR(maxima_and_sums[i].y / sum, 1.0, 1e-5);
    for (int32_t k = 0; k < seen; k += 37) {  // and the scores are q . K
      const std::vector<Bf16> row = world.kv_head(0, start + k, static_cast<int32_t>(i) / spans / 4, false);
      double exact = 0;
      for (std::size_t d = 0; d < row.size(); ++d) {
        exact += static_cast<double>(widen(row[d])) * widen(q_values[i / static_cast<std::size_t>(spans) * 128 + d]);
      }
      EXPECT_NEAR(t[k], exact, 1e-3 * (1 + std::abs(exact)));
    }
  }
}

}  // namespace
}  // namespace mortise::test::span_test
