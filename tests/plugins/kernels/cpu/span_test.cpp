// Attention in spans on every instruction set against its scalar reference, bit by bit, and that one against a double
// loop.
#include "span_problem.hpp"

namespace mortise::cpu {
namespace isa_emulated_amx {
extern const SpanKernels kSpanBf16Kernels;
extern const SpanKernels kSpanBf16Int8Kernels;
}  // namespace isa_emulated_amx

namespace {

using Bf16Cache = SpanTypes<Bf16, Bf16>;
using F32Cache = SpanTypes<float, float>;
using Bf16Int8Cache = SpanTypes<Bf16, std::int8_t>;
using F32Int8Cache = SpanTypes<float, std::int8_t>;

template <class Types>
const SpanKernels& kernels_of(const KernelTable& table) {
  if constexpr (std::is_same_v<Types, Bf16Cache>) return table.span_bf16;
  if constexpr (std::is_same_v<Types, F32Cache>) return table.span_f32;
  if constexpr (std::is_same_v<Types, Bf16Int8Cache>) return table.span_bf16_int8;
  if constexpr (std::is_same_v<Types, F32Int8Cache>) return table.span_f32_int8;
}

template <class Types>
auto write_of(const KernelTable& table) {
  if constexpr (std::is_same_v<Types, Bf16Cache>) return table.kv_write.bf16;
  if constexpr (std::is_same_v<Types, F32Cache>) return table.kv_write.f32;
  if constexpr (std::is_same_v<Types, Bf16Int8Cache>) return table.kv_write.bf16_int8;
  if constexpr (std::is_same_v<Types, F32Int8Cache>) return table.kv_write.f32_int8;
}

}  // namespace

template <class Types>
std::vector<SpanSet> span_sets() {
  std::vector<SpanSet> sets;
  for (Isa isa : available_isas()) {
    sets.push_back({isa_name(isa), &kernels_of<Types>(kernels(isa)), write_of<Types>(kernels(isa))});
  }
  if constexpr (sizeof(typename Types::Model) == 2) {
    constexpr bool int8 = sizeof(typename Types::Stored) == 1;
    sets.push_back({"emulated amx",
                    int8 ? &isa_emulated_amx::kSpanBf16Int8Kernels : &isa_emulated_amx::kSpanBf16Kernels,
                    write_of<Types>(kernels(Isa::kPortable))});
  }
  return sets;
}

namespace {

template <class Types>
class KernelsSpan : public testing::Test {
 protected:
  DenormalsOff denormals_off_;
};
using Caches = testing::Types<Bf16Cache, F32Cache, Bf16Int8Cache, F32Int8Cache>;
struct CacheNames {
  template <class Types>
  static std::string GetName(int) {
    return std::string(sizeof(typename Types::Model) == 2 ? "bf16" : "f32") +
           (sizeof(typename Types::Stored) == 1 ? "_int8" : "");
  }
};
TYPED_TEST_SUITE(KernelsSpan, Caches, CacheNames);

std::string describe(const SpanShape& s, const SpanSet& set) {
  char text[160];
  std::snprintf(text, sizeof text, "%s: head_dim %d, group %d, block_size %d, length %d, window %d", set.name.c_str(),
                s.head_dim, s.group, s.block_size, s.length, s.window);
  return text;
}

template <class Types>
void expect_last_row(const SpanShape& shape, Values qk, Values v, unsigned seed) {
  using T = typename Types::Model;
  const SpanProblem<Types> p(shape, qk, v, seed);
  const int row = shape.length - 1;
  const std::vector<T> expected = p.expected(row, row + 1);
  for (const SpanSet& set : span_sets<Types>()) {
    SCOPED_TRACE(describe(shape, set));
    auto kv = p.cache(set, shape.length);
    EXPECT_TRUE(same_bits(expected, p.run(set, kv, row, row + 1, shape.length, {1, 0, 0})));
    EXPECT_TRUE(same_bits(expected, p.run(set, kv, row, row + 1, shape.length, {1, 1, 0}))) << "in partials";
  }
}

TYPED_TEST(KernelsSpan, ADecodeRowHasTheBitsOfTheReference) {
  unsigned seed = 1;
  const int blocks[] = {16, 32, 64, 128};
  for (int head_dim : {24, 48, 64, 80, 96, 128, 256}) {
    for (int group : {1, 4, 8}) {
      for (int length : {1, 15, 16, 17, 31, 32, 33, 255, 256, 257, 700}) {
        expect_last_row<TypeParam>({head_dim, group, blocks[seed % 4], length, 0}, Values::kNormal, Values::kNormal,
                                   seed);
        ++seed;
      }
    }
  }
}

TYPED_TEST(KernelsSpan, OddGroupsAndSmallHeadsHaveTheBitsOfTheReference) {
  unsigned seed = 1;
  for (int head_dim : {8, 16, 40, 200}) {
    for (int group : {2, 3, 5, 7, 11, 16, 17, 20, 31, 32}) {
      expect_last_row<TypeParam>({head_dim, group, 16, 300, 0}, Values::kNormal, Values::kNormal, seed++);
    }
  }
}

TYPED_TEST(KernelsSpan, AWindowHasTheBitsOfTheReference) {
  unsigned seed = 1;
  for (int window : {1, 2, 15, 16, 17, 100, 255, 256, 257, 300, 1000}) {
    for (int length : {33, 256, 257, 300, 513, 700}) {
      expect_last_row<TypeParam>({64, 2, 16, length, window}, Values::kNormal, Values::kNormal, seed++);
    }
  }
}

// Where zeros, denormals, overflow and NaN must be the same too. V is finite: a key that a row does not see, but that
// lies in one tile with one that it sees, is multiplied by zero. In int8 it is finite by itself.
TYPED_TEST(KernelsSpan, ExtremeValuesHaveTheBitsOfTheReference) {
  unsigned seed = 1;
  for (Values qk : {Values::kNormal, Values::kTiny, Values::kHuge, Values::kWide, Values::kSpecial}) {
    for (Values v : {Values::kNormal, Values::kTiny, Values::kHuge, Values::kWide}) {
      for (int length : {5, 40, 300}) expect_last_row<TypeParam>({48, 4, 16, length, 0}, qk, v, seed++);
    }
    if (!SpanProblem<TypeParam>::kInt8) continue;
    for (int length : {5, 40, 300}) expect_last_row<TypeParam>({48, 4, 16, length, 3}, qk, Values::kSpecial, seed++);
  }
}

TYPED_TEST(KernelsSpan, NoCutOfTheRowsOrSpansChangesABit) {
  using T = typename TypeParam::Model;
  unsigned seed = 1;
  for (const SpanShape& shape :
       {SpanShape{64, 1, 16, 600, 0}, SpanShape{48, 4, 32, 290, 0}, SpanShape{64, 2, 16, 530, 70},
        SpanShape{80, 8, 64, 270, 260},
        // Parts of a unit that are no whole tiles: 30, 28, 17 rows times heads.
        SpanShape{64, 3, 16, 300, 40}, SpanShape{40, 7, 16, 280, 0}, SpanShape{32, 17, 32, 90, 20}}) {
    const SpanProblem<TypeParam> p(shape, Values::kNormal, Values::kNormal, seed);
    const std::vector<T> expected = p.expected(0, shape.length);
    for (const SpanSet& set : span_sets<TypeParam>()) {
      SCOPED_TRACE(describe(shape, set));
      auto kv = p.cache(set, shape.length);
      EXPECT_TRUE(same_bits(expected, p.run(set, kv, 0, shape.length, shape.length, {kUnitRows, 0, 0})));
      for (int i = 0; i < 3; ++i) {
        ++seed;
        const SpanCut cut = {kUnitRows, i == 2 ? 2 : 0, seed};
        EXPECT_TRUE(same_bits(expected, p.run(set, kv, 0, shape.length, shape.length, cut))) << i;
      }
    }
  }
}

// Rows of many sequences at once: of what they share one reads for all, in any order and whatever window each has.
TYPED_TEST(KernelsSpan, GatheredRowsHaveTheBitsOfTheReference) {
  using T = typename TypeParam::Model;
  unsigned seed = 1;
  for (const SpanShape& shape :
       {SpanShape{64, 1, 16, 900, 0}, SpanShape{48, 4, 32, 800, 0}, SpanShape{64, 2, 16, 900, 350},
        SpanShape{80, 8, 64, 600, 120}, SpanShape{24, 7, 16, 1100, 700}, SpanShape{128, 32, 128, 530, 0}}) {
    std::mt19937 rng(++seed);
    const SpanProblem<TypeParam> p(shape, Values::kNormal, Values::kNormal, seed);
    std::vector<int> rows;
    for (int i = 0; i < 21; ++i) rows.push_back(std::uniform_int_distribution<int>(511, shape.length - 1)(rng));
    std::vector<T> expected;
    for (const int row : rows) {
      const std::vector<T> one = p.expected(row, row + 1);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    for (const SpanSet& set : span_sets<TypeParam>()) {
      SCOPED_TRACE(describe(shape, set));
      auto kv = p.cache(set, shape.length);
      for (const int folded : {0, 1, 9}) {
        for (const int unit_rows : {5, kUnitRows / shape.group}) {
          EXPECT_TRUE(same_bits(expected, p.run_gathered(set, kv, rows, unit_rows, folded)))
              << folded << " spans folded, " << unit_rows << " rows a unit";
        }
      }
    }
  }
}

// A row gives the same bits while the tokens behind it are not there yet, and NaN lies in their slots.
TYPED_TEST(KernelsSpan, LaterTokensDoNotChangeABit) {
  using T = typename TypeParam::Model;
  const SpanShape shape = {64, 2, 16, 320, 0};
  const SpanProblem<TypeParam> p(shape, Values::kTiny, Values::kTiny, 3);
  const std::vector<T> expected = p.expected(0, shape.length);
  for (const SpanSet& set : span_sets<TypeParam>()) {
    SCOPED_TRACE(describe(shape, set));
    for (int end : {1, 2, 9, 16, 17, 31, 45, 250, 257, 301}) {
      auto kv = p.cache(set, end);
      const int first = std::max(0, end - 20);
      const std::vector<T> rows = p.run(set, kv, first, end, end, {16, 0, 0});
      EXPECT_TRUE(same_bits(&expected[static_cast<std::size_t>(first * shape.group * shape.head_dim)], rows.data(),
                            rows.size()))
          << "length " << end;
    }
  }
}

// A sum that is flushed to -0 in its last tile must not show how many tiles with P = 0 came after it.
TYPED_TEST(KernelsSpan, AFlushedSumIsPositiveZero) {
  using T = typename TypeParam::Model;
  const SpanShape shape = {64, 1, 16, 90, 0};
  SpanProblem<TypeParam> p(shape, Values::kNormal, Values::kNormal, 3);
  std::fill(p.q.begin(), p.q.end(), T{0});
  std::fill(p.v.begin(), p.v.end(), T{0});
  for (std::size_t d = 0; d < 64; ++d) {
    p.v[d] = static_cast<T>(sizeof(T) == 2 ? 0x0080 : 0x1p-126f);               // key 0: 2^-126
    p.v[32 * 64 + d] = static_cast<T>(sizeof(T) == 2 ? 0x80c0 : -0x1.8p-126f);  // key 32: the sum is a denormal below 0
  }
  if constexpr (p.kInt8) {  // the others are 1 and -1 then, of scales just above 2^-126
    p.v[63] = static_cast<T>(sizeof(T) == 2 ? 0x0400 : 0x1p-119f);
    p.v[32 * 64 + 63] = static_cast<T>(sizeof(T) == 2 ? 0x8440 : -0x1.8p-119f);
  }
  const std::vector<T> expected = p.expected(63, 64), zeros(63, T{0});
  EXPECT_TRUE(same_bits(zeros.data(), expected.data(), zeros.size()));
  for (const SpanSet& set : span_sets<TypeParam>()) {
    SCOPED_TRACE(set.name);
    auto kv = p.cache(set, shape.length);
    EXPECT_TRUE(same_bits(expected, p.run(set, kv, 63, 64, shape.length, {1, 0, 0}))) << "two tiles";
    const std::vector<T> rows = p.run(set, kv, 63, 90, shape.length, {kUnitRows, 0, 0});
    EXPECT_TRUE(same_bits(expected.data(), rows.data(), 64)) << "three tiles";
  }
}

TYPED_TEST(KernelsSpan, NoKeysGiveZero) {
  using T = typename TypeParam::Model;
  const SpanShape shape = {64, 2, 16, 1, 0};
  const SpanProblem<TypeParam> p(shape, Values::kNormal, Values::kNormal, 3);
  for (const SpanSet& set : span_sets<TypeParam>()) {
    auto kv = p.cache(set, 0);
    const std::vector<T> zeros(128, T{0});
    EXPECT_TRUE(same_bits(zeros, p.run(set, kv, 0, 1, /*seq_len=*/0, {1, 0, 0}))) << set.name;
    EXPECT_TRUE(same_bits(zeros, p.run(set, kv, 0, 1, /*seq_len=*/0, {1, 1, 0}))) << set.name;
  }
}

// The largest difference that the formats allow. f32: a score errs by at most n u sum|q k| (n the longest path of
// additions, u = 2^-24), which moves its weight by as much, once above and once below the fraction bar; sums and
// products add about 60 u. bf16: a weight errs by 2^-9 above the bar against the sum of the rounded ones, 2^-9 more for
// out.
template <class Types>
double tolerance(const SpanProblem<Types>& p, const std::vector<float>& query, const std::vector<float>& key,
                 double max_v) {
  double largest = 0;
  for (int t = 0; t < p.shape.length; ++t) {
    double sum = 0;
    for (int d = 0; d < p.shape.head_dim; ++d) {
      sum += std::abs(static_cast<double>(query[static_cast<std::size_t>(d)]) *
                      key[static_cast<std::size_t>(t * p.shape.head_dim + d)]);
    }
    largest = std::max(largest, sum);
  }
  const double u = std::ldexp(1.0, -24), path = 16 + p.shape.head_dim / 32 + 4;
  const double f32 = 2 * (path * u * largest * p.scale) + 60 * u;
  return (f32 + (sizeof(typename Types::Model) == 2 ? std::ldexp(1.0, -7) : 0)) * max_v;
}

TYPED_TEST(KernelsSpan, TheReferenceIsAttention) {
  for (const SpanShape& shape :
       {SpanShape{64, 1, 16, 700, 0}, SpanShape{256, 1, 16, 300, 0}, SpanShape{24, 1, 16, 600, 280}}) {
    const SpanProblem<TypeParam> p(shape, Values::kNormal, Values::kNormal, 11);
    const std::vector<float> key = p.meant(p.k), value = p.meant(p.v), query = p.widen(p.query_of(shape.length - 1, 0));
    const std::vector<float> actual = p.widen(p.expected(shape.length - 1, shape.length));
    const int first = shape.window > 0 ? std::max(0, shape.length - shape.window) : 0;
    std::vector<double> out(static_cast<std::size_t>(shape.head_dim));
    double sum = 0, max_v = 0;
    for (int t = first; t < shape.length; ++t) {
      double score = 0;
      for (int d = 0; d < shape.head_dim; ++d) {
        score += static_cast<double>(query[static_cast<std::size_t>(d)]) *
                 key[static_cast<std::size_t>(t * shape.head_dim + d)];
      }
      const double weight = std::exp(score / std::sqrt(static_cast<double>(shape.head_dim)));
      sum += weight;
      for (int d = 0; d < shape.head_dim; ++d) {
        const double x = value[static_cast<std::size_t>(t * shape.head_dim + d)];
        out[static_cast<std::size_t>(d)] += weight * x;
        max_v = std::max(max_v, std::abs(x));
      }
    }
    const double allowed = tolerance(p, query, key, max_v);
    for (std::size_t d = 0; d < out.size(); ++d) EXPECT_NEAR(actual[d], out[d] / sum, allowed) << d;
  }
}

// However the rows of 64 tokens come, one by one in any order or in runs from any slot, the cache holds the same, and
// no call touches a slot that is not its own: half of a pair may be another thread's.
TYPED_TEST(KernelsSpan, WritingARowLeavesEveryOtherSlotAsItIs) {
  for (int head_dim : {8, 24, 40, 64, 96, 120, 128, 256}) {
    const SpanShape shape = {head_dim, 1, 32, 64, 0};
    const SpanProblem<TypeParam> p(shape, Values::kNormal, Values::kNormal, 5);
    for (const SpanSet& set : span_sets<TypeParam>()) {
      SCOPED_TRACE(describe(shape, set));
      auto whole = p.cache(set, 64);
      std::mt19937 rng(7);
      for (int longest : {1, 5, 30, 64}) {
        auto pieces = p.cache(set, 0);
        std::vector<std::pair<int, int>> runs;
        for (int t = 0; t < 64; t += runs.back().second) {
          runs.emplace_back(t, std::min(std::uniform_int_distribution<int>(1, longest)(rng), 64 - t));
        }
        std::shuffle(runs.begin(), runs.end(), rng);
        for (const auto& [first, count] : runs) {
          std::vector<std::int64_t> slots;
          for (int t = first; t < first + count; ++t) {
            slots.push_back(static_cast<std::int64_t>(p.table[static_cast<std::size_t>(t / 32)]) * 32 + t % 32);
          }
          KvWrite w{};
          w.k = &p.k[static_cast<std::size_t>(first * head_dim)];
          w.v = &p.v[static_cast<std::size_t>(first * head_dim)];
          w.k_row_stride = w.v_row_stride = head_dim;
          w.num_rows = count;
          w.slots = slots.data();
          w.kv = pieces.data() + p.layout.layer_elements;
          w.layout = &p.layout;
          set.write(w);
        }
        EXPECT_TRUE(same_bits(whole.data(), pieces.data(), p.table.size() * p.layout.block_elements)) << longest;
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cpu
