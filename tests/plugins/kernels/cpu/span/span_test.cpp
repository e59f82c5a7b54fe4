// Attention in spans, in both orders of sums, on every instruction set against its scalar reference, bit by bit, and
// that one against a double loop.
// Covers: plugins/kernels/cpu/span/{amx,dot,layout,merge,pairs,softmax,strip,tile_softmax,unit,write}
// Covers: plugins/kernels/cpu/reference/span
#include "span/span_problem.hpp"

namespace mortise::cpu {
namespace isa_emulated_amx {
extern const SpanKernels kSpanBf16Kernels;
extern const SpanKernels kSpanBf16Int8Kernels;
extern const SpanKernels kSpanBf16Fp8Kernels;
}  // namespace isa_emulated_amx
namespace isa_emulated_dot {
extern const SpanKernels kSpanPairsKernels;
extern const SpanKernels kSpanPairsInt8Kernels;
extern const SpanKernels kSpanPairsFp8Kernels;
}  // namespace isa_emulated_dot

namespace {

using Bf16Cache = SpanTypes<Bf16, Bf16>;
using F32Cache = SpanTypes<float, float>;
using Bf16Int8Cache = SpanTypes<Bf16, std::int8_t>;
using F32Int8Cache = SpanTypes<float, std::int8_t>;
using Bf16Fp8Cache = SpanTypes<Bf16, Fp8>;
using F32Fp8Cache = SpanTypes<float, Fp8>;
using PairsCache = SpanTypes<Bf16, Bf16, SumOrder::kPairs>;
using PairsInt8Cache = SpanTypes<Bf16, std::int8_t, SumOrder::kPairs>;
using PairsFp8Cache = SpanTypes<Bf16, Fp8, SumOrder::kPairs>;

// The one of the cache's type.
template <class Types, class Choice>
const Choice& choose(const Choice& same, const Choice& int8, const Choice& fp8) {
  using Stored = typename Types::Stored;
  return std::is_same_v<Stored, Fp8> ? fp8 : std::is_same_v<Stored, std::int8_t> ? int8 : same;
}

template <class Types>
const SpanKernels& span_of(const Bf16Kernels& table) {
  return choose<Types>(table.span, table.span_int8, table.span_fp8);
}

template <class Types>
const SpanKernels& kernels_of(Isa isa) {
  if constexpr (sizeof(typename Types::Model) == 2) {
    return span_of<Types>(bf16_kernels(isa, Types::kOrder));
  } else {
    const KernelTable& table = kernels(isa);
    return choose<Types>(table.span_f32, table.span_f32_int8, table.span_f32_fp8);
  }
}

template <class Types>
auto write_of(const KernelTable& table) {
  const KvWriteKernels& write = table.kv_write;
  return sizeof(typename Types::Model) == 2 ? choose<Types>(write.bf16, write.bf16_int8, write.bf16_fp8)
                                            : choose<Types>(write.f32, write.f32_int8, write.f32_fp8);
}

}  // namespace

template <class Types>
std::vector<SpanSet> span_sets() {
  std::vector<SpanSet> sets;
  for (Isa isa : available_isas())
    sets.push_back({isa_name(isa), &kernels_of<Types>(isa), write_of<Types>(kernels(isa))});
  if (const Bf16Kernels* dot = exact_dot_kernels(); dot != nullptr && Types::kOrder == SumOrder::kPairs) {
    sets.push_back({"avx512 with dot", &span_of<Types>(*dot), write_of<Types>(kernels(Isa::kAvx512))});
  }
  if (sizeof(typename Types::Model) == 2 && (Types::kOrder == SumOrder::kTiles || can_emulate_dot())) {
    const bool pairs = Types::kOrder == SumOrder::kPairs;
    using namespace isa_emulated_amx;
    using namespace isa_emulated_dot;
    const SpanKernels& emulated = pairs ? choose<Types>(kSpanPairsKernels, kSpanPairsInt8Kernels, kSpanPairsFp8Kernels)
                                        : choose<Types>(kSpanBf16Kernels, kSpanBf16Int8Kernels, kSpanBf16Fp8Kernels);
    sets.push_back({pairs ? "emulated dot" : "emulated amx", &emulated, write_of<Types>(kernels(Isa::kPortable))});
  }
  return sets;
}

namespace {

template <class Types>
class KernelsSpan : public testing::Test {
 protected:
  DenormalsOff denormals_off_;
};
using Caches = testing::Types<Bf16Cache, F32Cache, Bf16Int8Cache, F32Int8Cache, Bf16Fp8Cache, F32Fp8Cache, PairsCache,
                              PairsInt8Cache, PairsFp8Cache>;
struct CacheNames {
  template <class Types>
  static std::string GetName(int) {
    return std::string(sizeof(typename Types::Model) == 2 ? "bf16" : "f32") +
           (Types::kOrder == SumOrder::kPairs ? "_pairs" : "") +
           (std::is_same_v<typename Types::Stored, Fp8> ? "_fp8"
            : sizeof(typename Types::Stored) == 1       ? "_int8"
                                                        : "");
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

// Where zeros, denormals, overflow and NaN must be the same too.
TYPED_TEST(KernelsSpan, ExtremeValuesHaveTheBitsOfTheReference) {
  unsigned seed = 1;
  for (Values qk : {Values::kNormal, Values::kTiny, Values::kHuge, Values::kWide, Values::kSpecial}) {
    for (Values v : {Values::kNormal, Values::kTiny, Values::kHuge, Values::kWide}) {
      for (int length : {5, 40, 300}) expect_last_row<TypeParam>({48, 4, 16, length, 0}, qk, v, seed++);
    }
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

// Some tokens with an element of K or V that is NaN or infinite; at most a few of V in a window of 40.
template <class Types>
struct Broken {
  SpanProblem<Types> problem;
  std::vector<int> values, keys;  // the tokens

  Broken(const SpanProblem<Types>& finite, unsigned seed) : problem(finite) {
    using T = typename Types::Model;
    std::mt19937 rng(seed);
    const auto draw = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(rng); };
    const auto strew = [&](std::vector<T>& into, int token) {
      constexpr std::uint32_t kBits[] = {0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000};
      const std::uint32_t bits = kBits[draw(4)];
      T& x = into[static_cast<std::size_t>(token * finite.shape.head_dim + draw(finite.shape.head_dim))];
      if constexpr (sizeof(T) == 2) {
        x = static_cast<T>(bits >> 16);
      } else {
        x = float_of(bits);
      }
    };
    for (int token = draw(40); token < finite.shape.length; token += 30 + draw(60)) {
      const int what = draw(4);
      if (what != 0) strew(problem.v, token), values.push_back(token);
      if (what < 2) strew(problem.k, token), keys.push_back(token);
    }
  }
  // Whether the row sees one of the tokens.
  bool sees(int row, const std::vector<int>& tokens) const {
    const int window = problem.shape.window;
    return std::any_of(tokens.begin(), tokens.end(),
                       [=](int token) { return token <= row && (window == 0 || token > row - window); });
  }
};

// Rows that see V of NaN or infinity are NaN; rows that see neither such a V nor such a K have the bits that they have
// without them. Every row, however the rows are cut, is what the reference gives for it alone.
TYPED_TEST(KernelsSpan, AValueThatIsNotFiniteReachesTheRowsThatSeeItAlone) {
  using T = typename TypeParam::Model;
  unsigned seed = 1;
  int touched = 0, untouched = 0;
  for (const SpanShape& shape :
       {SpanShape{64, 2, 16, 330, 17}, SpanShape{48, 4, 32, 300, 40}, SpanShape{80, 1, 16, 90, 0},
        SpanShape{24, 3, 128, 600, 33}, SpanShape{128, 1, 16, 70, 0}}) {
    const SpanProblem<TypeParam> finite(shape, Values::kNormal, Values::kNormal, ++seed);
    const Broken<TypeParam> broken(finite, seed);
    const std::vector<T> expected = broken.problem.expected(0, shape.length), before = finite.expected(0, shape.length);
    const std::size_t size = static_cast<std::size_t>(shape.group * shape.head_dim);
    for (int row = 0; row < shape.length; ++row) {
      const T* const at = &expected[static_cast<std::size_t>(row) * size];
      if (broken.sees(row, broken.values)) {
        EXPECT_TRUE(std::all_of(at, at + size, [](T x) { return sizeof(T) == 2 ? x == T{0x7fc0} : x != x; })) << row;
        ++touched;
      } else if (!broken.sees(row, broken.keys)) {
        EXPECT_TRUE(same_bits(&before[static_cast<std::size_t>(row) * size], at, size)) << row;
        ++untouched;
      }
    }
    for (const SpanSet& set : span_sets<TypeParam>()) {
      SCOPED_TRACE(describe(shape, set));
      auto kv = broken.problem.cache(set, shape.length);
      const auto run = [&](SpanCut cut) { return broken.problem.run(set, kv, 0, shape.length, shape.length, cut); };
      EXPECT_TRUE(same_bits(expected, run({kUnitRows, 0, 0})));
      EXPECT_TRUE(same_bits(expected, run({1, 0, 0}))) << "row by row";
      for (int i = 0; i < 3; ++i) {
        ++seed;
        EXPECT_TRUE(same_bits(expected, run({kUnitRows, i == 2 ? 2 : 0, seed}))) << i;
      }
    }
  }
  EXPECT_GT(touched, 100);
  EXPECT_GT(untouched, 100);
}

TYPED_TEST(KernelsSpan, AValueThatIsNotFiniteReachesTheGatheredRowsThatSeeItAlone) {
  using T = typename TypeParam::Model;
  const SpanShape shape = {64, 2, 16, 900, 300};
  const SpanProblem<TypeParam> finite(shape, Values::kNormal, Values::kNormal, 5);
  Broken<TypeParam> broken(finite, 5);
  broken.problem.k = finite.k, broken.problem.v = finite.v;
  for (const int token : {100, 255, 400, 830}) {  // a window of 300 sees them from some rows, and not from others
    T& x = broken.problem.v[static_cast<std::size_t>(token * shape.head_dim + token % shape.head_dim)];
    x = static_cast<T>(sizeof(T) == 2 ? 0x7f80 : __builtin_nanf(""));
  }
  std::vector<int> rows;
  for (int row = 511; row < shape.length; row += 19) rows.push_back(row);
  std::shuffle(rows.begin(), rows.end(), std::mt19937(3));
  std::vector<T> expected;
  for (const int row : rows) {
    const std::vector<T> one = broken.problem.expected(row, row + 1);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  const auto nans =
      std::count_if(expected.begin(), expected.end(), [](T x) { return sizeof(T) == 2 ? x == T{0x7fc0} : x != x; });
  EXPECT_GT(nans, 0);
  EXPECT_LT(nans, static_cast<std::ptrdiff_t>(expected.size()));
  for (const SpanSet& set : span_sets<TypeParam>()) {
    SCOPED_TRACE(describe(shape, set));
    auto kv = broken.problem.cache(set, shape.length);
    for (const int folded : {0, 1, 9}) {
      EXPECT_TRUE(same_bits(expected, broken.problem.run_gathered(set, kv, rows, kUnitRows / shape.group, folded)))
          << folded;
    }
  }
}

// The slots after a sequence's last token hold what an earlier sequence wrote there.
TYPED_TEST(KernelsSpan, WhatAnEarlierSequenceLeftChangesNoBit) {
  using T = typename TypeParam::Model;
  const SpanShape shape = {48, 2, 16, 320, 0};
  const SpanProblem<TypeParam> finite(shape, Values::kNormal, Values::kNormal, 7);
  const std::size_t size = static_cast<std::size_t>(shape.group * shape.head_dim);
  for (const int end : {1, 2, 15, 16, 17, 31, 32, 33, 250, 256, 257, 301}) {
    // The tokens from `end` on have the values of Broken, and those before are finite.
    Broken<TypeParam> left(finite, static_cast<unsigned>(end));
    const auto own = static_cast<std::ptrdiff_t>(end) * shape.head_dim;
    std::copy_n(finite.k.begin(), own, left.problem.k.begin());
    std::copy_n(finite.v.begin(), own, left.problem.v.begin());
    left.problem.v[static_cast<std::size_t>(own)] = static_cast<T>(sizeof(T) == 2 ? 0x7fc0 : __builtin_nanf(""));
    const int first = std::max(0, end - 40);
    const std::vector<T> expected = finite.expected(first, end);
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(end - first) * size);
    for (const SpanSet& set : span_sets<TypeParam>()) {
      SCOPED_TRACE(describe(shape, set));
      auto kv = left.problem.cache(set, shape.length);
      EXPECT_TRUE(same_bits(expected, left.problem.run(set, kv, first, end, end, {kUnitRows, 0, 0}))) << end;
      EXPECT_TRUE(same_bits(expected, left.problem.run(set, kv, first, end, end, {1, 1, 0}))) << end << ", in partials";
    }
  }
}

// A row gives the same bits while the tokens after it are not there yet.
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
  if constexpr (std::is_same_v<typename TypeParam::Stored, Fp8>) {  // the others are 0.5 and -0.75 of the scale 2^-125
    p.v[63] = p.v[32 * 64 + 63] = static_cast<T>(sizeof(T) == 2 ? 0x0560 : 0x1.cp-117f);
  } else if constexpr (p.kScaled) {  // the others are 1 and -1 then, of scales just above 2^-126
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
  const double u = std::ldexp(1.0, -24), chain = Types::kOrder == SumOrder::kPairs ? p.shape.head_dim : 16;
  const double path = chain + p.shape.head_dim / 32 + 4;
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
    const SpanProblem<TypeParam> finite(shape, Values::kNormal, Values::kNormal, 5);
    const SpanProblem<TypeParam> p = Broken<TypeParam>(finite, static_cast<unsigned>(head_dim)).problem;
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

// Each token's K and V in the layout of span.hpp: as they are, or of a token whose V is not finite NaN and zeros. The
// tokens come in runs of every length, so that whole groups and single tokens are written.
TYPED_TEST(KernelsSpan, AWrittenTokenIsThatOfTheReference) {
  using Problem = SpanProblem<TypeParam>;
  using E = typename TypeParam::Stored;
  constexpr bool kPairs = sizeof(E) == 2;
  const auto at = [](int n) { return static_cast<std::size_t>(n); };
  int not_finite = 0;
  for (int head_dim : {8, 24, 64, 88, 128, 256}) {
    const SpanShape shape = {head_dim, 1, 32, 160, 0};
    const Problem finite(shape, Values::kNormal, Values::kNormal, 3);
    const Problem p = Broken<TypeParam>(finite, at(head_dim)).problem;
    std::vector<float> keys = p.widen(p.k), values = p.widen(p.v);
    for (std::size_t i = 0; i < keys.size(); i += at(head_dim)) {
      reference::span_written(&keys[i], &values[i], head_dim);
      not_finite += std::isnan(keys[i]) && values[i] == 0 ? 1 : 0;
    }
    const auto k = p.stored(keys), v = p.stored(values);
    for (const SpanSet& set : span_sets<TypeParam>()) {
      SCOPED_TRACE(describe(shape, set));
      auto kv = p.cache(set, shape.length);
      for (int t = 0; t < shape.length; ++t) {
        const int offset = t % shape.block_size, in_group = offset % kKeyGroup;
        const E* const head = p.head(kv) + at(p.table[at(t / shape.block_size)]) * p.layout.block_elements;
        const E* const group = head + at(offset - in_group) * at(p.layout.key_depth);
        const E* const value = head + p.layout.value_offset;
        const int width = p.layout.value_width;
        for (int d = 0; d < head_dim; ++d) {
          const E key_is = group[at(kPairs ? d / 2 * 32 + in_group * 2 + d % 2 : d * kKeyGroup + in_group)];
          const E value_is = value[at(kPairs ? offset / 2 * 2 * width + d * 2 + offset % 2 : offset * width + d)];
          ASSERT_TRUE(p.holds(key_is, k.numbers[at(t * head_dim + d)])) << "K of token " << t << ", element " << d;
          ASSERT_TRUE(p.holds(value_is, v.numbers[at(t * head_dim + d)])) << "V of token " << t << ", element " << d;
        }
        if constexpr (Problem::kScaled) {
          const auto* key_scale = reinterpret_cast<const float*>(head + p.layout.key_scale_offset) + offset;
          const auto* value_scale = reinterpret_cast<const float*>(head + p.layout.value_scale_offset) + offset;
          ASSERT_TRUE(same_bits(&k.scales[at(t)], key_scale, 1)) << t;
          ASSERT_TRUE(same_bits(&v.scales[at(t)], value_scale, 1)) << t;
        }
      }
    }
  }
  EXPECT_GT(not_finite, 5);
}

}  // namespace
}  // namespace mortise::cpu
