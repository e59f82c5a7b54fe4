// E4M3 weights through the device: the bits of class cuda-fp8/1, whether made from float parts or handed in, by all
// kernels and at every number of rows.
// Covers: plugins/kernels/cuda/{fp8_pack,fp8_rows,fp8_weight,linear_fp8_many,linear_fp8_mma}
// Covers: plugins/kernels/cuda/{linear_fp8_stream,linear_fp8_widened,linear_wide,wide_tile}
// Covers: plugins/kernels/cuda/reference/linear_fp8
#include <algorithm>
#include <cmath>

#include "kernels/cuda/reference/linear_fp8.hpp"
#include "linear_call.hpp"
#include "linear_fp8/linear_fp8_problem.hpp"

namespace mortise::cuda::fp8_weights_test {
namespace {

using Fp8Values = cpu::reference::Fp8Weight;

// A quantised matrix as a checkpoint would hand it in.
class Source {
 public:
  explicit Source(Fp8Values weight) : weight_(std::move(weight)) {
    matrix_.n = static_cast<int64_t>(weight_.n);
    matrix_.k = static_cast<int64_t>(weight_.k);
    matrix_.bits = 8;
    matrix_.value_type = MORTISE_F8_E4M3;
    matrix_.group_size = static_cast<int32_t>(weight_.group_size);
    matrix_.context = this;
    matrix_.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t*) {
      const Fp8Values& w = static_cast<const Source*>(context)->weight_;
      const auto groups = static_cast<int64_t>(w.scales.size() / w.n), columns = static_cast<int64_t>(w.k);
      std::copy(&w.values[0] + n0 * columns, &w.values[0] + n1 * columns, values);
      std::copy(&w.scales[0] + n0 * groups, &w.scales[0] + n1 * groups, scales);
    };
  }
  Source(const Source&) = delete;
  const mortise_quantized_matrix* matrix() const { return &matrix_; }

 private:
  Fp8Values weight_;
  mortise_quantized_matrix matrix_ = sized<mortise_quantized_matrix>();
};

// A prepared weight, freed with this object.
class Fp8Prepared {
 public:
  Fp8Prepared(const std::vector<const Source*>& parts) {  // NOLINT: a weight of these
    std::vector<const mortise_quantized_matrix*> pointers;
    for (const Source* part : parts) pointers.push_back(part->matrix());
    auto source = source_of(pointers.size());
    source.group_size = pointers[0]->group_size;
    source.quantized = pointers.data();
    prepare(source);
  }
  explicit Fp8Prepared(const std::vector<mortise_tensor>& parts, int32_t group = 0, int32_t dtype = MORTISE_BF16) {
    std::vector<const mortise_tensor*> pointers;
    for (const mortise_tensor& part : parts) pointers.push_back(&part);
    auto source = source_of(pointers.size());
    source.group_size = group;
    source.dtype = dtype;
    source.parts = pointers.data();
    prepare(source);
  }
  ~Fp8Prepared() { device().table().free_weight(device().get(), weight_); }
  Fp8Prepared(const Fp8Prepared&) = delete;
  const mortise_weight* get() const { return weight_; }

  mortise_status status = MORTISE_OK;

 private:
  static mortise_weight_source source_of(std::size_t parts) {
    auto source = sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR;
    source.dtype = MORTISE_BF16;
    source.bits = 8;
    source.value_type = MORTISE_F8_E4M3;
    source.num_parts = static_cast<int32_t>(parts);
    return source;
  }
  void prepare(const mortise_weight_source& source) {
    status = device().table().prepare_weight(device().get(), &source, &weight_, &device().error);
  }
  mortise_weight* weight_ = nullptr;
};

class CudaFp8Weights : public CallsLinear {
 protected:
  // What the reference gives.
  std::vector<float> expected(const cpu::Fp8Problem<Bf16>& p) {
    const Array<Bf16> x(p.x);
    const Array<std::uint8_t> values(p.w.values);
    const Array<float> scales(p.w.scales), bias(p.bias.empty() ? std::vector<float>{0} : p.bias),
        y(p.shape.m * p.shape.n);
    LinearFp8Args args = {};
    args.x = x.data(), args.x_stride = static_cast<std::int64_t>(p.shape.k);
    args.format = {p.w.group_size < p.w.k, static_cast<std::int64_t>(p.w.n), static_cast<std::int64_t>(p.w.k)};
    args.bias = p.bias.empty() ? nullptr : bias.data();
    args.y = y.data(), args.y_stride = static_cast<std::int64_t>(p.shape.n), args.y_type = ElementType::kF32;
    args.m = static_cast<std::int64_t>(p.shape.m), args.n = static_cast<std::int64_t>(p.shape.n);
    const auto stream = static_cast<cudaStream_t>(table().stream_native(gpu(), nullptr));
    EXPECT_EQ(reference::launch_linear_fp8(args, {values.data(), scales.data()}, stream), cudaSuccess);
    return y.get();
  }
};

// One random product: shape, format, inputs.
struct RandomProduct {
  explicit RandomProduct(unsigned seed) : rng(seed) {
    const auto between = [&](std::size_t low, std::size_t high) {
      return std::uniform_int_distribution<std::size_t>(low, high)(rng);
    };
    constexpr std::size_t kRows[] = {1, 2, 3, 5, 8, 9, 16, 17, 31, 32, 33, 64, 65, 130, 257, 2060},
                          kPads[] = {0, 0, 8, 3};
    const std::size_t m = kRows[between(0, std::size(kRows) - 1)];
    shape = {m, between(1, 700), between(1, 1500), between(0, 1) == 0};
    if (between(0, 2) == 0) shape.n = shape.n / 64 * 64 + 64, shape.k = shape.k / 128 * 128 + 128;
    x_pad = kPads[between(0, 3)];
    values = kAllValues[between(0, std::size(kAllValues) - 1)];
    bias = between(0, 1) == 0;
  }
  std::mt19937 rng;
  cpu::Fp8Shape shape = {};
  std::size_t x_pad = 0;
  Values values = Values::kNormal;
  bool bias = false;
};

TEST_F(CudaFp8Weights, RandomProductsHaveTheBitsOfTheReference) {
  int failures = 0;
  for (unsigned seed = 0; seed < 500 && failures < 5; ++seed) {
    RandomProduct random(seed);
    cpu::Fp8Problem<Bf16> p(random.shape, random.values, seed, false);
    const auto bias = random_values<Bf16>(random.rng, p.shape.n);
    for (const Bf16 value : bias) {
      if (random.bias) p.bias.push_back(cpu::bf16_to_float(value));
    }
    const Weight bias_weight(MORTISE_WEIGHT_VECTOR, {vector_part(bias)});
    const Source source(p.w);
    const Fp8Prepared weight({&source});
    expect_ok(weight.status);
    LinearCall call = {p.shape.m, p.shape.n, p.shape.k, random.x_pad, random.bias ? bias_weight.get() : nullptr};
    if (seed % 4 < 2) call.y_pad = 8;
    const std::vector<float> y = expected(p);
    const auto equal = seed % 2 == 0 ? same_bits(y, product<float>(weight.get(), p.x, call))
                                     : same_bits(rounded<Bf16>(y), product<Bf16>(weight.get(), p.x, call));
    EXPECT_TRUE(equal) << "seed " << seed << ": " << p.shape << ", pad " << random.x_pad << ", bias " << random.bias
                       << ", values " << static_cast<int>(random.values);
    if (!equal) ++failures;
  }
}

TEST_F(CudaFp8Weights, LargeShapesHaveTheBitsOfTheReference) {
  for (const auto& [n, k] :
       {std::pair<std::size_t, std::size_t>(6144, 4096), {4096, 1024}, {512, 14336}, {20000, 384}}) {
    for (const bool grouped : {false, true}) {
      for (const std::size_t m : {1, 16, 32, 48, 100, 256, 300, 600, 2060, 2100}) {
        const cpu::Fp8Problem<Bf16> p({m, m > 2060 ? 512 : n, m > 2060 ? 640 : k, grouped}, Values::kNormal, 7, false);
        const Source source(p.w);
        const Fp8Prepared weight({&source});
        expect_ok(weight.status);
        EXPECT_TRUE(same_bits(expected(p), product<float>(weight.get(), p.x, {m, p.shape.n, p.shape.k}))) << p.shape;
      }
    }
  }
}

// Warps hand weights and x to each other through a ring: a race would show now and then only. The blocks have several
// tiles.
TEST_F(CudaFp8Weights, ProductsHaveTheSameBitsEveryTime) {
  for (const bool grouped : {false, true}) {
    const cpu::Fp8Problem<Bf16> p({2060, 20000, 1152, grouped}, Values::kNormal, 9, false);
    const Source source(p.w);
    const Fp8Prepared weight({&source});
    for (const auto& [m, times] :
         {std::pair<std::size_t, int>{2, 100}, {15, 100}, {32, 100}, {64, 100}, {256, 100}, {2060, 5}}) {
      const std::vector<Bf16> x(p.x.begin(), p.x.begin() + static_cast<std::ptrdiff_t>(m * p.shape.k));
      const LinearCall call = {m, p.shape.n, p.shape.k};
      const auto once = product<Bf16>(weight.get(), x, call);
      int differences = 0;
      for (int i = 0; i < times; ++i) differences += product<Bf16>(weight.get(), x, call) == once ? 0 : 1;
      EXPECT_EQ(differences, 0) << grouped << ", " << m << " rows";
    }
  }
}

// The class differs from the CPU's, whose products are those of the same numbers.
TEST_F(CudaFp8Weights, TheReferenceIsNearTheCpus) {
  const cpu::Fp8Problem<Bf16> p({5, 60, 900, true}, Values::kNormal, 8);
  const std::vector<float> gpu = expected(p), host = cpu::expected(p);
  for (std::size_t i = 0; i < p.shape.m; ++i) {
    for (std::size_t j = 0; j < p.shape.n; ++j) {
      double magnitude = std::fabs(p.bias[j]);
      for (std::size_t c = 0; c < p.shape.k; ++c) {
        magnitude += std::fabs(double{cpu::bf16_to_float(p.x[i * p.shape.k + c])} *
                               cpu::reference::from_e4m3(p.w.values[j * p.shape.k + c]) *
                               p.w.scales[j * (p.w.scales.size() / p.w.n) + c / p.w.group_size]);
      }
      EXPECT_NEAR(gpu[i * p.shape.n + j], host[i * p.shape.n + j], magnitude * 0x1p-18);
    }
  }
}

// Rows of ones pick single weights out of a matrix that has each number once.
TEST_F(CudaFp8Weights, EveryNumberIsWidenedExactly) {
  for (const std::size_t m :
       {std::size_t{128}, std::size_t{32}}) {  // linear_wide, then linear_fp8_widened in four parts
    cpu::Fp8Problem<Bf16> p({128, 2, 128, false}, Values::kNormal, 1, /*with_bias=*/false);
    std::fill(p.x.begin(), p.x.end(), Bf16{0});
    for (std::size_t i = 0; i < 128; ++i) {
      p.x[i * 128 + i] = cpu::float_to_bf16(1.0f);
      p.w.values[i] = static_cast<std::uint8_t>(i == 127 ? 0 : i), p.w.values[128 + i] = p.w.values[i] | 0x80;
    }
    p.w.scales = {1.0f, 1.0f};
    const Source source(p.w);
    const Fp8Prepared weight({&source});
    for (std::size_t first = 0; first < 128; first += m) {
      const std::vector<Bf16> x(&p.x[first * 128], &p.x[first * 128] + m * 128);
      const auto y = product<float>(weight.get(), x, {m, 2, 128});
      for (std::size_t i = 0; i < m && first + i < 127; ++i) {
        EXPECT_EQ(y[2 * i], cpu::reference::from_e4m3(static_cast<std::uint8_t>(first + i)));
        EXPECT_EQ(y[2 * i + 1], -y[2 * i]);
      }
    }
  }
}

TEST_F(CudaFp8Weights, FloatPartsAreRoundedAsTheReferenceRounds) {
  std::mt19937 rng(1);
  for (const Values values : kAllValues) {
    for (const std::size_t m : {5, 40}) {
      const std::size_t n = 140, k = 200;
      const auto a = random_values<Bf16>(rng, 37 * k, values);
      const auto b = random_values<float>(rng, (n - 37) * k, values);
      std::vector<float> w;
      for (const Bf16 value : a) w.push_back(cpu::bf16_to_float(value));
      w.insert(w.end(), b.begin(), b.end());
      const Fp8Prepared weight(std::vector<mortise_tensor>{host_part(a, 37, k), host_part(b, n - 37, k)});
      expect_ok(weight.status);
      cpu::Fp8Problem<Bf16> p({m, n, k, false}, Values::kNormal, 2, false);
      p.w = cpu::reference::quantize_fp8(w, n, k);
      EXPECT_TRUE(same_bits(expected(p), product<float>(weight.get(), p.x, {m, n, k}))) << static_cast<int>(values);
    }
  }
}

TEST_F(CudaFp8Weights, PartsAreConcatenated) {
  for (const bool grouped : {false, true}) {
    for (const std::size_t m : {3, 50}) {
      const cpu::Fp8Problem<Bf16> a({m, 70, 256, grouped}, Values::kNormal, 2, false);
      cpu::Fp8Problem<Bf16> b({m, 13, 256, grouped}, Values::kNormal, 3, false);
      b.x = a.x;
      const Source first(a.w), second(b.w);
      const Fp8Prepared weight(std::vector<const Source*>{&first, &second});
      expect_ok(weight.status);
      const std::vector<float> ya = expected(a), yb = expected(b);
      std::vector<float> y;
      for (std::size_t i = 0; i < m; ++i) {
        y.insert(y.end(), &ya[i * 70], &ya[i * 70] + 70);
        y.insert(y.end(), &yb[i * 13], &yb[i * 13] + 13);
      }
      EXPECT_TRUE(same_bits(y, product<float>(weight.get(), a.x, {m, 83, 256}))) << grouped << ", " << m;
    }
  }
}

TEST_F(CudaFp8Weights, RowsAreTheSameAloneAndInAnyNumber) {
  const std::size_t n = 320, k = 640, most = 2100;
  for (const bool grouped : {false, true}) {
    const cpu::Fp8Problem<Bf16> p({most, n, k, grouped}, Values::kNormal, 8, false);
    const Source source(p.w);
    const Fp8Prepared weight({&source});
    const auto all = product<Bf16>(weight.get(), p.x, {most, n, k});
    for (const std::size_t m :
         {1, 3, 8, 9, 16, 17, 32, 33, 40, 64, 65, 100, 129, 256, 300, 600, 1024, 1025, 2048, 2060}) {
      const std::vector<Bf16> x(p.x.begin(), p.x.begin() + static_cast<std::ptrdiff_t>(m * k));
      EXPECT_TRUE(same_bits(std::vector<Bf16>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(m * n)),
                            product<Bf16>(weight.get(), x, {m, n, k, 0, nullptr, 0, 0, 0, 8})))
          << grouped << ", " << m << " rows";
    }
  }
}

TEST_F(CudaFp8Weights, ColumnRangesAreColumnsOfTheWhole) {
  const std::size_t n = 1000, k = 256;
  for (const std::size_t m : {5, 40, 200, 2060}) {
    for (const bool grouped : {false, true}) {
      const cpu::Fp8Problem<Bf16> p({m, n, k, grouped}, Values::kNormal, 5, false);
      const Source source(p.w);
      const Fp8Prepared weight({&source});
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

TEST_F(CudaFp8Weights, AGatedProductIsTheProductAndThenItsActivation) {
  const std::size_t inner = 384, k = 288;
  for (const std::size_t m : {1, 40, 200, 2060}) {
    const cpu::Fp8Problem<Bf16> p({m, 2 * inner, k, true}, Values::kNormal, 6, false);
    const Source source(p.w);
    const Fp8Prepared weight({&source});
    const Array<Bf16> both(product<Bf16>(weight.get(), p.x, {m, 2 * inner, k})), twice(m * inner);
    const mortise_tensor both_tensor = matrix(both, m, 2 * inner), twice_tensor = matrix(twice, m, inner);
    expect_ok(table().gated_activation(gpu(), nullptr, MORTISE_ACT_SILU, &both_tensor, &twice_tensor, error()));
    EXPECT_TRUE(
        same_bits(twice.get(), product<Bf16>(weight.get(), p.x, {m, 2 * inner, k, 0, nullptr, MORTISE_ACT_SILU})));
  }
}

TEST_F(CudaFp8Weights, NanOtherGroupsAndTypesAreRefused) {
  cpu::Fp8Problem<Bf16> p({1, 300, 256, true}, Values::kNormal, 1);
  p.w.values[257 * 256 + 3] = 0xff;
  const Source source(p.w);
  expect_invalid(Fp8Prepared({&source}).status, "the value at row 257, column 3 is NaN");
  const std::vector<float> w(2 * 512, 1.0f);
  EXPECT_EQ(Fp8Prepared(std::vector<mortise_tensor>{host_part(w, 2, 512)}).status, MORTISE_OK);
  expect_invalid(Fp8Prepared(std::vector<mortise_tensor>{host_part(w, 2, 512)}, 128).status,
                 "8 bits of E4M3 in groups of 128; expected");
  EXPECT_EQ(Fp8Prepared(std::vector<mortise_tensor>{host_part(w, 2, 512)}, 0, MORTISE_F32).status,
            MORTISE_UNIMPLEMENTED);
}

}  // namespace
}  // namespace mortise::cuda::fp8_weights_test
