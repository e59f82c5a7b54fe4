// Shared spans on the GPU: whatever groups there are, however they are cut into runs, rows have the bits of the
// reference, which computes each alone.
// Covers: plugins/kernels/cuda/{span_decode,span_shared}
#include <algorithm>
#include <random>

#include "span_shape.hpp"
#include "world.hpp"

namespace mortise::test::span_shared_test {
namespace {

// The first row that differs, as a text; empty if there is none.
std::string difference(const Rows& expected, const Rows& actual) {
  for (const auto& [key, row] : actual) {
    const std::vector<Bf16>& wanted = expected.at(key);
    if (wanted == row) continue;
    const std::size_t at =
        static_cast<std::size_t>(std::mismatch(row.begin(), row.end(), wanted.begin()).first - row.begin());
    return "sequence " + std::to_string(key.seq) + ", position " + std::to_string(key.position) + ", element " +
           std::to_string(at) + " of " + std::to_string(row.size()) + ": expected " +
           std::to_string(widen(wanted[at])) + ", is " + std::to_string(widen(row[at]));
  }
  return {};
}

// Rows at the end of each sequence, in any order.
std::vector<Chunk> ends(const Config& config, std::mt19937& rng, int32_t most) {
  std::vector<Chunk> batch;
  for (std::size_t i = 0; i < config.lengths.size(); ++i) {
    const int32_t own = config.lengths[i] - (config.prefixes.empty() ? 0 : config.prefixes[i].tokens);
    const int32_t count = std::min(own, static_cast<int32_t>(1 + rng() % static_cast<uint32_t>(most)));
    batch.push_back({static_cast<int32_t>(i), config.lengths[i] - count, count});
    if (rng() % 5 == 0) batch.push_back({static_cast<int32_t>(i), 0, -1});
  }
  std::shuffle(batch.begin(), batch.end(), rng);
  return batch;
}

// What the runs of a batch were.
struct Seen {
  std::size_t groups = 0, folded = 0, unfolded = 0;
  void add(const span_cuda::Plan& plan) {
    groups += plan.shared_runs.empty() ? 0 : 1;
    for (const cuda::SharedRun& run : plan.shared_runs) ++(run.folds != 0 ? folded : unfolded);
  }
};

class SharedSpans : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override { MORTISE_NEEDS_GPU(); }
  Config config() const {
    const Shape& shape = GetParam();
    Config config;
    config.num_heads = shape.num_heads;
    config.num_kv_heads = shape.num_kv_heads;
    config.head_dim = shape.head_dim;
    config.block_size = shape.block_size;
    config.window = shape.window;
    config.cache = shape.cache;
    return config;
  }
  // Any batches, on any numbers of blocks and with any room.
  Seen expect_reference_bits(World& world, uint32_t seed, int32_t most_rows) {
    std::mt19937 rng(seed);
    Seen seen;
    for (int round = 0; round < 3; ++round) {
      const std::vector<Chunk> batch = ends(world.config(), rng, most_rows);
      Method method;
      method.prefill = rng() % 2 == 0;
      method.num_blocks = 1 + static_cast<int32_t>(rng() % 40);
      method.num_shared_blocks = 1 + static_cast<int32_t>(rng() % 40);
      if (round == 2) method.num_blocks = method.num_shared_blocks = 264;
      Rows rows;
      seen.add(world.compute(batch, method, rows));
      EXPECT_EQ(difference(world.reference(batch), rows), "") << "round " << round;
    }
    return seen;
  }
};

TEST_P(SharedSpans, OfOneGroup) {
  for (const int32_t shared : {127, 128, 700, 1000, 1537}) {
    Config c = config();
    for (int32_t i = 0; i < 9; ++i) {
      c.lengths.push_back(shared + 1 + i * 37);
      c.prefixes.push_back({0, i == 0 ? 0 : shared});
    }
    World world(c);
    const Seen seen = expect_reference_bits(world, static_cast<uint32_t>(shared), 6);
    const int32_t whole_spans = shared / c.block_size * c.block_size / cuda::kSpan;
    if (c.window == 0) {
      EXPECT_EQ(seen.groups > 0, whole_spans > 0) << shared;
    }
  }
}

TEST_P(SharedSpans, OfManyRows) {
  Config c = config();
  for (int32_t i = 0; i < 40; ++i) {
    c.lengths.push_back(1100 + i * 9);
    c.prefixes.push_back({0, i == 0 ? 0 : 1024});
  }
  World world(c);
  EXPECT_GT(expect_reference_bits(world, 5, 3).folded, 0u);
}

TEST_P(SharedSpans, OfNestedAndSeveralGroupsAndNone) {
  Seen seen;
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    std::mt19937 rng(seed);
    Config c = config();
    c.seed = seed;
    for (int32_t i = 0; i < 24; ++i) {
      Prefix prefix{0, 0};
      if (i >= 3) {
        prefix.earlier_seq = static_cast<int32_t>(rng() % static_cast<uint32_t>(i));
        const int32_t all = c.lengths[static_cast<std::size_t>(prefix.earlier_seq)];
        prefix.tokens = rng() % 6 == 0 ? 0 : static_cast<int32_t>(rng() % static_cast<uint32_t>(all));
      }
      c.prefixes.push_back(prefix);
      c.lengths.push_back(prefix.tokens + 1 + static_cast<int32_t>(rng() % (i < 3 ? 1500 : 400)));
    }
    World world(c);
    const Seen more = expect_reference_bits(world, seed, 4);
    seen.groups += more.groups, seen.folded += more.folded, seen.unfolded += more.unfolded;
  }
  EXPECT_GT(seen.folded, 0u);
  EXPECT_GT(seen.unfolded, 0u);  // of groups in groups, and of cut ones
}

// A token of the shared prefix whose V was not finite: with a window some members see it, and others do not.
TEST_P(SharedSpans, OfATokenWhoseValueIsNotFinite) {
  Config c = config();
  for (int32_t i = 0; i < 12; ++i) {
    c.lengths.push_back(1030 + i * 40);
    c.prefixes.push_back({0, i == 0 ? 0 : 1024});
  }
  World world(c);
  world.break_token(0, 800);
  std::mt19937 rng(4);
  const std::vector<Chunk> batch = ends(c, rng, 3);
  const Rows expected = world.reference(batch);
  int32_t touched = 0, untouched = 0;
  for (const auto& [key, row] : expected) {
    if (key.seq < 0) continue;
    const bool sees = c.window == 0 || 800 > key.position - c.window;
    const auto nans = std::count(row.begin(), row.end(), 0x7fc0);
    EXPECT_EQ(nans, sees ? static_cast<std::ptrdiff_t>(row.size()) : 0) << key.position;
    ++(sees ? touched : untouched);
  }
  EXPECT_GT(touched, 0);
  // The last row stands furthest from the broken token.
  EXPECT_EQ(untouched > 0, c.window > 0 && c.lengths.back() - 1 - c.window >= 800);
  for (const int32_t blocks : {1, 9, 264}) {
    Rows rows;
    Seen seen;
    seen.add(world.compute(batch, {.num_blocks = blocks, .num_shared_blocks = blocks}, rows));
    EXPECT_GT(seen.groups, 0u) << blocks;
    EXPECT_EQ(difference(expected, rows), "") << blocks;
  }
}

// Sharp softmax: weights far below the largest, which the floor of the exponential decides.
TEST_P(SharedSpans, OfLargeScores) {
  Config c = config();
  c.q_size = 30;
  for (int32_t i = 0; i < 12; ++i) {
    c.lengths.push_back(600 + i * 50);
    c.prefixes.push_back({0, i == 0 ? 0 : 512});
  }
  World world(c);
  expect_reference_bits(world, 8, 2);
}

std::string shape_name(const testing::TestParamInfo<Shape>& info) {
  const Shape& s = info.param;
  std::string name = "h";  // and not a temporary: gcc 12 warns of what it makes of `"h" + std::to_string`
  return name + std::to_string(s.num_heads) + "kv" + std::to_string(s.num_kv_heads) + "d" + std::to_string(s.head_dim) +
         "b" + std::to_string(s.block_size) + "w" + std::to_string(s.window) +
         (s.cache == cuda::SpanCache::kInt8  ? "int8"
          : s.cache == cuda::SpanCache::kFp8 ? "fp8"
                                             : "");
}
INSTANTIATE_TEST_SUITE_P(Shapes, SharedSpans,
                         testing::Values(Shape{8, 2, 128, 16, 0}, Shape{4, 4, 64, 32, 0}, Shape{20, 1, 128, 128, 0},
                                         Shape{6, 2, 64, 16, 300}, Shape{8, 2, 128, 64, 900}, Shape{8, 2, 32, 16, 0},
                                         Shape{6, 2, 80, 16, 300}, Shape{8, 2, 96, 32, 0}, Shape{8, 2, 192, 16, 0},
                                         Shape{20, 1, 256, 16, 0}, Shape{4, 4, 256, 64, 300},
                                         Shape{8, 2, 64, 16, 0, cuda::SpanCache::kInt8},
                                         Shape{20, 1, 128, 16, 300, cuda::SpanCache::kInt8},
                                         Shape{20, 1, 128, 16, 300, cuda::SpanCache::kFp8},
                                         Shape{8, 2, 192, 32, 0, cuda::SpanCache::kInt8}),
                         shape_name);

}  // namespace
}  // namespace mortise::test::span_shared_test
