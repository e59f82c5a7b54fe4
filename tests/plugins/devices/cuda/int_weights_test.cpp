// Quantised weights through the device: the bits of the CPU's class, whether made from float parts or handed in
// quantised, by all kernels and at every number of rows.
// Covers: plugins/devices/checks/quantized
// Covers: plugins/kernels/cuda/{int_loads,int_pack,row_pieces,int_rows,int_sums,int_weight}
// Covers: plugins/kernels/cuda/{int4_many_ring,linear_int4_many,linear_int4_stream,linear_int4_widened,transposed}
// Covers: plugins/kernels/cuda/{linear_int_stream,linear_int_wide,widened_ring}
// Covers: plugins/kernels/cuda/linear_int_mma
// Covers: plugins/kernels/cuda/wgmma
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "kernels/cpu/reference/linear_int.hpp"
#include "linear_call.hpp"
#include "linear_int/linear_int_problem.hpp"

namespace mortise::cuda::int_weights_test {
namespace {

using cpu::reference::IntWeight;

// A quantised matrix as a checkpoint would hand it in.
class Source {
 public:
  Source(IntWeight weight, int bits) : weight_(std::move(weight)) {
    matrix_.n = static_cast<int64_t>(weight_.n);
    matrix_.k = static_cast<int64_t>(weight_.k);
    matrix_.bits = bits;
    matrix_.group_size = static_cast<int32_t>(weight_.group_size);
    matrix_.order = weight_.order.empty() ? nullptr : weight_.order.data();
    matrix_.context = this;
    matrix_.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t* zeros) {
      const IntWeight& w = static_cast<const Source*>(context)->weight_;
      const auto groups = static_cast<int64_t>(w.scales.size() / w.n), columns = static_cast<int64_t>(w.k);
      std::copy(&w.values[0] + n0 * columns, &w.values[0] + n1 * columns, values);
      std::copy(&w.scales[0] + n0 * groups, &w.scales[0] + n1 * groups, scales);
      std::copy(&w.zeros[0] + n0 * groups, &w.zeros[0] + n1 * groups, zeros);
    };
  }
  Source(const Source&) = delete;
  const mortise_quantized_matrix* matrix() const { return &matrix_; }
  const IntWeight& weight() const { return weight_; }

 private:
  IntWeight weight_;
  mortise_quantized_matrix matrix_ = sized<mortise_quantized_matrix>();
};

// A prepared quantised weight, freed with this object.
class QuantizedWeight {
 public:
  QuantizedWeight(const std::vector<const Source*>& parts) {  // NOLINT: a weight of these
    std::vector<const mortise_quantized_matrix*> pointers;
    for (const Source* part : parts) pointers.push_back(part->matrix());
    auto source = source_of(pointers[0]->bits, pointers[0]->group_size, pointers.size());
    source.quantized = pointers.data();
    prepare(source);
  }
  QuantizedWeight(const std::vector<mortise_tensor>& parts, int bits, std::size_t group,
                  int32_t use = MORTISE_WEIGHT_LINEAR, int32_t dtype = MORTISE_BF16) {
    std::vector<const mortise_tensor*> pointers;
    for (const mortise_tensor& part : parts) pointers.push_back(&part);
    auto source = source_of(bits, static_cast<int32_t>(group), pointers.size());
    source.use = use;
    source.dtype = dtype;
    source.parts = pointers.data();
    prepare(source);
  }
  ~QuantizedWeight() { device().table().free_weight(device().get(), weight_); }
  QuantizedWeight(const QuantizedWeight&) = delete;
  const mortise_weight* get() const { return weight_; }

  mortise_status status = MORTISE_OK;

 private:
  static mortise_weight_source source_of(int bits, int32_t group, std::size_t parts) {
    auto source = sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR;
    source.dtype = MORTISE_BF16;
    source.bits = bits;
    source.group_size = group;
    source.num_parts = static_cast<int32_t>(parts);
    return source;
  }
  void prepare(const mortise_weight_source& source) {
    status = device().table().prepare_weight(device().get(), &source, &weight_, &device().error);
  }
  mortise_weight* weight_ = nullptr;
};

class CudaIntWeights : public CallsLinear {};

TEST_F(CudaIntWeights, FloatPartsAreQuantizedAsTheReferenceDoes) {
  std::mt19937 rng(1);
  for (const Values values : kAllValues) {
    for (const auto& [bits, group] : {std::pair<int, std::size_t>(8, 0), {4, 32}, {4, 64}, {8, 128}, {4, 0}}) {
      const std::size_t m = 5, n = 140, k = 200;
      const auto a = random_values<Bf16>(rng, 37 * k, values);
      const auto b = random_values<float>(rng, (n - 37) * k, values);
      std::vector<float> w;
      for (const Bf16 value : a) w.push_back(cpu::bf16_to_float(value));
      w.insert(w.end(), b.begin(), b.end());
      const QuantizedWeight weight({host_part(a, 37, k), host_part(b, n - 37, k)}, bits, group);
      expect_ok(weight.status);
      const auto reference = cpu::reference::quantize_weights(w, n, k, bits, group == 0 ? k : group);
      const auto x = random_values<Bf16>(rng, m * k);
      std::vector<float> y(m * n);
      cpu::reference::linear_int(x.data(), reference, nullptr, y.data(), m);
      EXPECT_TRUE(same_bits(y, product<float>(weight.get(), x, {m, n, k})))
          << bits << " bits in groups of " << group << ", values " << static_cast<int>(values);
    }
  }
}

TEST_F(CudaIntWeights, HalfPrecisionPartsAreWidenedExactly) {
  std::vector<std::uint16_t> halves;  // all finite ones, denormals and zeros of both signs among them
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    if ((h >> 10 & 0x1f) != 0x1f) halves.push_back(static_cast<std::uint16_t>(h));
  }
  const std::size_t k = 64, n = halves.size() / k;
  std::vector<float> w;
  for (std::size_t i = 0; i < n * k; ++i) {
    const std::uint32_t h = halves[i];
    const float magnitude = (h >> 10 & 0x1f) == 0 ? std::ldexp(static_cast<float>(h & 0x3ff), -24)
                                                  : std::ldexp(static_cast<float>(1024 + (h & 0x3ff)),
                                                               static_cast<int>(h >> 10 & 0x1f) - 25);
    w.push_back((h & 0x8000) != 0 ? -magnitude : magnitude);
  }
  mortise_tensor part = host_part(halves, n, k);
  part.dtype = MORTISE_F16;
  const QuantizedWeight weight({part}, 8, 0);
  expect_ok(weight.status);
  std::mt19937 rng(9);
  const auto x = random_values<Bf16>(rng, 2 * k);
  std::vector<float> y(2 * n);
  cpu::reference::linear_int(x.data(), cpu::reference::quantize_weights(w, n, k, 8, k), nullptr, y.data(), 2);
  EXPECT_TRUE(same_bits(y, product<float>(weight.get(), x, {2, n, k})));
}

TEST_F(CudaIntWeights, QuantizedPartsAreMultipliedAsTheyCome) {
  for (const bool with_order : {false, true}) {
    for (const int bits : {4, 8}) {
      const std::size_t k = 256, m = 9;
      cpu::IntProblem<Bf16> a({m, 70, k, bits, 64}, Values::kNormal, 2, false, with_order);
      cpu::IntProblem<Bf16> b({m, 13, k, bits, 64}, Values::kNormal, 3, false, with_order);
      b.w.order = a.w.order;
      b.x = a.x;
      const std::vector<float> ya = cpu::expected(a), yb = cpu::expected(b);
      const Source first(a.w, bits), second(b.w, bits);
      const QuantizedWeight weight({&first, &second});
      expect_ok(weight.status);
      std::vector<float> y;
      for (std::size_t i = 0; i < m; ++i) {
        y.insert(y.end(), &ya[i * 70], &ya[i * 70] + 70);
        y.insert(y.end(), &yb[i * 13], &yb[i * 13] + 13);
      }
      EXPECT_TRUE(same_bits(y, product<float>(weight.get(), a.x, {m, 83, k}))) << bits << " bits, order " << with_order;
    }
  }
}

// The sums that come nearest to 2^31: no step wraps or saturates.
TEST_F(CudaIntWeights, TheLargestGroupsDoNotWrap) {
  for (const int bits : {4, 8}) {
    for (const std::size_t m : {2, 20}) {
      cpu::IntProblem<Bf16> p({m, 40, 32768, bits, 32768}, Values::kNormal, 4, false, false, cpu::Weights::kExtreme);
      for (Bf16& x : p.x) x = cpu::float_to_bf16(m == 2 ? 1.0f : -1.0f);
      const Source source(p.w, bits);
      const QuantizedWeight weight({&source});
      expect_ok(weight.status);
      EXPECT_TRUE(same_bits(cpu::expected(p), product<float>(weight.get(), p.x, {m, 40, 32768}))) << bits << ", " << m;
    }
  }
}

// One random product: shape, format, inputs; against the scalar reference.
class RandomProduct {
 public:
  explicit RandomProduct(unsigned seed) : rng_(seed), seed_(seed) {
    bits_ = pick({4, 8});
    const std::size_t group = static_cast<std::size_t>(pick({0, 32, 64, 128, 192, 256}));
    // About as many products each time.
    m_ = static_cast<std::size_t>(pick({1, 2, 3, 5, 8, 9, 16, 31, 33, 64, 65, 130, 257}));
    n_ = between(1, m_ > 60 ? 150 : 400);
    k_ = between(1, m_ > 60 ? 300 : 900);
    group_ = group == 0 || group > k_ ? k_ : group;
    order_ = between(0, 4) == 0;
    symmetric_ = between(0, 2) == 0;
    bias_ = between(0, 1) == 0;
    x_pad_ = static_cast<std::size_t>(pick({0, 0, 8, 3}));
    values_ = kAllValues[between(0, std::size(kAllValues) - 1)];
    extreme_ = between(0, 3) == 0;
  }

  cpu::IntProblem<Bf16> problem() const {
    cpu::IntProblem<Bf16> p({m_, n_, k_, bits_, group_}, values_, seed_, false, order_,
                            extreme_ ? cpu::Weights::kExtreme : cpu::Weights::kRandom);
    if (symmetric_) std::fill(p.w.zeros.begin(), p.w.zeros.end(), static_cast<std::uint8_t>(1 << (bits_ - 1)));
    return p;
  }
  std::string text() const {
    return "seed " + std::to_string(seed_) + ": " + std::to_string(m_) + " x " + std::to_string(n_) + " x " +
           std::to_string(k_) + ", " + std::to_string(bits_) + " bits in groups of " + std::to_string(group_) +
           (order_ ? ", order" : "") + (symmetric_ ? ", symmetric" : "") + (bias_ ? ", bias" : "") + ", pad " +
           std::to_string(x_pad_) + ", values " + std::to_string(static_cast<int>(values_));
  }

  std::size_t m_, n_, k_, group_, x_pad_;
  int bits_;
  bool order_, symmetric_, bias_, extreme_;
  Values values_;

 private:
  std::size_t between(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(rng_);
  }
  int pick(const std::vector<int>& values) { return values[between(0, values.size() - 1)]; }
  std::mt19937 rng_;
  unsigned seed_;
};

// The same bits on CPU and GPU: 1,000 shapes, formats and inputs.
TEST_F(CudaIntWeights, ThousandRandomProductsHaveTheBitsOfTheCpu) {
  int failures = 0;
  for (unsigned seed = 0; seed < 1000 && failures < 5; ++seed) {
    const RandomProduct random(seed);
    cpu::IntProblem<Bf16> p = random.problem();
    std::mt19937 rng(seed);
    const auto bias = random_values<Bf16>(rng, random.n_);
    for (const Bf16 value : bias) {
      if (random.bias_) p.bias.push_back(cpu::bf16_to_float(value));
    }
    const Weight bias_weight(MORTISE_WEIGHT_VECTOR, {vector_part(bias)});
    const Source source(p.w, random.bits_);
    const QuantizedWeight weight({&source});
    expect_ok(weight.status);
    const LinearCall call = {random.m_, random.n_, random.k_, random.x_pad_,
                             random.bias_ ? bias_weight.get() : nullptr};
    const std::vector<float> expected = cpu::expected(p);
    const auto equal = seed % 2 == 0 ? same_bits(expected, product<float>(weight.get(), p.x, call))
                                     : same_bits(rounded<Bf16>(expected), product<Bf16>(weight.get(), p.x, call));
    EXPECT_TRUE(equal) << random.text();
    if (!equal) ++failures;
  }
}

// Against the CPU's fastest kernels, which the scalar reference was compared with.
TEST_F(CudaIntWeights, LargeShapes) {
  const cpu::KernelTable& kernels = cpu::kernels(cpu::available_isas().back());
  for (const auto& [n, k] : {std::pair<std::size_t, std::size_t>(1536, 4096), {4096, 1024}, {512, 14336}}) {
    for (const auto& [bits, group] : {std::pair<int, std::size_t>(8, k), {4, 128}, {4, 64}, {8, 128}}) {
      for (const std::size_t m : {1, 4, 8, 32, 48, 300}) {
        const cpu::IntProblem<Bf16> p({m, n, k, bits, group}, Values::kNormal, 7, false);
        const Source source(p.w, bits);
        const QuantizedWeight weight({&source});
        expect_ok(weight.status);
        EXPECT_TRUE(same_bits(cpu::run<float>(kernels.linear_int, p), product<float>(weight.get(), p.x, {m, n, k})))
            << p.shape;
      }
    }
  }
}

// Warps hand weights and rows to each other through a ring: a race would show now and then only. The blocks have
// several tiles, and pass their rings several times.
TEST_F(CudaIntWeights, ProductsHaveTheSameBitsEveryTime) {
  for (const std::size_t group : {32, 64, 128}) {
    const std::size_t n = group == 32 ? 20000 : 40000;
    const cpu::IntProblem<Bf16> p({300, n, 1152, 4, group}, Values::kNormal, 9, false);
    const Source source(p.w, 4);
    const QuantizedWeight weight({&source});
    for (const std::size_t m : {1, 2, 3, 5, 15, 32, 64, 300}) {
      const std::vector<Bf16> x(p.x.begin(), p.x.begin() + static_cast<std::ptrdiff_t>(m * p.shape.k));
      const LinearCall call = {m, p.shape.n, p.shape.k};
      const auto once = product<Bf16>(weight.get(), x, call);
      int differences = 0;
      for (int i = 0; i < (m > 32 ? 20 : 60); ++i) differences += product<Bf16>(weight.get(), x, call) == once ? 0 : 1;
      EXPECT_EQ(differences, 0) << "groups of " << group << ", " << m << " rows";
    }
  }
}

// Every tile size of linear_int4_many, with tiles that end within the matrix and blocks that compute several: the rows
// of a large product are those of products of 32 rows, which other kernels compute. With n + 3 divisible by 8, rows of
// y are aligned, and are written sixteen bytes at a time.
TEST_F(CudaIntWeights, RowsOfLargeProductsAreThoseOfSmallOnes) {
  for (const auto& [m, n] : {std::pair<std::size_t, std::size_t>(50, 1005),
                             {50, 9000},
                             {130, 1000},
                             {130, 9005},
                             {260, 4101},
                             {1000, 1501},
                             {2100, 4509}}) {
    for (const std::size_t group : {64, 128}) {
      const std::size_t k = 700;
      cpu::IntProblem<Bf16> p({m, n, k, 4, group}, Values::kNormal, 10, false);
      p.x[5 * k + 3] = 0x7fc0;  // a row of NaN
      const Source source(p.w, 4);
      const QuantizedWeight weight({&source});
      std::mt19937 rng(3);
      const auto b = random_values<Bf16>(rng, n);
      const Weight bias(MORTISE_WEIGHT_VECTOR, {vector_part(b)});
      const LinearCall call = {m, n, k, 0, bias.get()};
      const auto all = product<Bf16>(weight.get(), p.x, call);
      const auto all_f32 = product<float>(weight.get(), p.x, call);
      for (std::size_t first = 0; first < m; first += first + 32 < m && first > 300 ? 320 : 32) {
        const std::size_t rows = std::min<std::size_t>(32, m - first);
        const auto begin = p.x.begin() + static_cast<std::ptrdiff_t>(first * k);
        const std::vector<Bf16> x(begin, begin + static_cast<std::ptrdiff_t>(rows * k));
        const LinearCall few = {rows, n, k, 0, bias.get()};
        EXPECT_TRUE(same_bits(&all_f32[first * n], product<float>(weight.get(), x, few).data(), rows * n))
            << p.shape << ", from row " << first;
        EXPECT_TRUE(same_bits(&all[first * n], product<Bf16>(weight.get(), x, few).data(), rows * n))
            << p.shape << ", from row " << first;
      }
    }
  }
}

// linear_int4_many takes usual scales only (kernels/cuda/int_weight.hpp). These are at their ends and beyond. Rows of
// large numbers overflow, and so do products with a bias that is infinite or NaN.
TEST_F(CudaIntWeights, ScalesOfAnySizeGiveTheBitsOfTheCpu) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float scale : {0.0f, 0x1p-64f, -0x1p-64f, 0x1.fffffep15f, -0x1.fffffep15f, 0x1.fffffep-65f, 0x1p-80f,
                            0x1p16f, -0x1p100f, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t group : {64, 128}) {
      const std::size_t m = 72, n = 69, k = 300;
      cpu::IntProblem<Bf16> p({m, n, k, 4, group}, Values::kNormal, 11, false);
      for (std::size_t i = 0; i < p.w.scales.size(); i += 3) p.w.scales[i] = scale;
      for (std::size_t i = 0; i < k; ++i) p.x[5 * k + i] = cpu::float_to_bf16(i % 7 == 0 ? 0x1p120f : 0x1p118f);
      std::mt19937 rng(4);
      auto b = random_values<Bf16>(rng, n);
      b[3] = 0x7fc0, b[20] = 0x7f80, b[21] = 0xff80;
      for (const Bf16 value : b) p.bias.push_back(cpu::bf16_to_float(value));
      const Weight bias(MORTISE_WEIGHT_VECTOR, {vector_part(b)});
      const Source source(p.w, 4);
      const QuantizedWeight weight({&source});
      const auto expected = cpu::expected(p);
      const LinearCall call = {m, n, k, 0, bias.get()};
      EXPECT_TRUE(same_bits(expected, product<float>(weight.get(), p.x, call))) << scale << ", groups of " << group;
      EXPECT_TRUE(same_bits(rounded<Bf16>(expected), product<Bf16>(weight.get(), p.x, call)))
          << scale << ", groups of " << group;
    }
  }
}

TEST_F(CudaIntWeights, RowsAreTheSameAloneAndInAnyNumber) {
  const std::size_t n = 320, k = 640, most = 300;
  for (const auto& [bits, group] : {std::pair<int, std::size_t>(4, 64), {4, 128}, {8, 128}}) {
    const cpu::IntProblem<Bf16> p({most, n, k, bits, group}, Values::kNormal, 8, false);
    const Source source(p.w, bits);
    const QuantizedWeight weight({&source});
    const auto all = product<Bf16>(weight.get(), p.x, {most, n, k});
    for (const std::size_t m : {1, 3, 8, 9, 17, 32, 40, 64, 100, 129}) {
      const std::vector<Bf16> x(p.x.begin(), p.x.begin() + static_cast<std::ptrdiff_t>(m * k));
      EXPECT_TRUE(same_bits(std::vector<Bf16>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(m * n)),
                            product<Bf16>(weight.get(), x, {m, n, k})))
          << bits << " bits in groups of " << group << ", " << m << " rows";
    }
  }
}

TEST_F(CudaIntWeights, ColumnRangesAreColumnsOfTheWhole) {
  const std::size_t n = 1000, k = 256;
  for (const std::size_t m : {1, 3, 5, 20, 40}) {
    for (const auto& [bits, group] : {std::pair<int, std::size_t>(8, k), {8, 64}, {4, 64}, {4, 128}}) {
      const cpu::IntProblem<Bf16> p({m, n, k, bits, group}, Values::kNormal, 5, false);
      const Source source(p.w, bits);
      const QuantizedWeight weight({&source});
      std::mt19937 rng(2);
      const auto b = random_values<Bf16>(rng, n);
      const Weight bias(MORTISE_WEIGHT_VECTOR, {vector_part(b)});
      const auto all = product<float>(weight.get(), p.x, {m, n, k, 0, bias.get()});
      for (const auto& [begin, end] : {std::pair<int32_t, int32_t>{0, 320}, {64, 128}, {832, 1000}, {960, 1000}}) {
        const auto width = static_cast<std::size_t>(end - begin);
        const auto got = product<float>(weight.get(), p.x, {m, n, k, 0, bias.get(), 0, begin, end});
        for (std::size_t r = 0; r < m; ++r) {
          EXPECT_TRUE(same_bits(&all[r * n + static_cast<std::size_t>(begin)], &got[r * width], width)) << begin;
        }
      }
    }
  }
}

TEST_F(CudaIntWeights, AGatedProductIsTheProductAndThenItsActivation) {
  const std::size_t inner = 384, k = 288;
  for (const std::size_t m : {1, 40}) {
    const cpu::IntProblem<Bf16> p({m, 2 * inner, k, 4, 32}, Values::kNormal, 6, false);
    const Source source(p.w, 4);
    const QuantizedWeight weight({&source});
    const Array<Bf16> both(product<Bf16>(weight.get(), p.x, {m, 2 * inner, k})), twice(m * inner);
    const mortise_tensor both_tensor = matrix(both, m, 2 * inner), twice_tensor = matrix(twice, m, inner);
    expect_ok(table().gated_activation(gpu(), nullptr, MORTISE_ACT_SILU, &both_tensor, &twice_tensor, error()));
    EXPECT_TRUE(
        same_bits(twice.get(), product<Bf16>(weight.get(), p.x, {m, 2 * inner, k, 0, nullptr, MORTISE_ACT_SILU})));
  }
}

TEST_F(CudaIntWeights, OtherBitsGroupsUsesAndTypesAreRefused) {
  const std::vector<float> w(2 * 40000, 1.0f);
  const auto prepared = [&](int bits, std::size_t group, std::size_t k, int32_t use = MORTISE_WEIGHT_LINEAR,
                            int32_t dtype = MORTISE_BF16) {
    return QuantizedWeight({host_part(w, 2, k)}, bits, group, use, dtype).status;
  };
  EXPECT_EQ(prepared(8, 0, 100), MORTISE_OK);
  EXPECT_EQ(prepared(4, 1000, 100), MORTISE_OK);  // longer than a row: a row
  expect_invalid(prepared(3, 0, 100), "3 bits in groups of 0; expected 4 or 8 bits");
  expect_invalid(prepared(4, 48, 100), "4 bits in groups of 48; expected 4 or 8 bits");
  expect_invalid(prepared(8, 0, 100, MORTISE_WEIGHT_LINEAR | MORTISE_WEIGHT_EMBEDDING), "expected linear");
  expect_invalid(prepared(8, 0, 40000), "at most 32768 sum without overflow");
  EXPECT_EQ(prepared(8, 0, 100, MORTISE_WEIGHT_LINEAR, MORTISE_F32), MORTISE_UNIMPLEMENTED);
  EXPECT_NE(std::string(error()->message).find("set dtype = \"bf16\""), std::string::npos) << error()->message;
}

TEST_F(CudaIntWeights, AnOrderThatIsNoPermutationIsRefused) {
  cpu::IntProblem<Bf16> p({1, 8, 128, 4, 32}, Values::kNormal, 1, false, true);
  p.w.order[5] = p.w.order[4];
  const Source source(p.w, 4);
  expect_invalid(QuantizedWeight({&source}).status, "order[5] is");
}

}  // namespace
}  // namespace mortise::cuda::int_weights_test
