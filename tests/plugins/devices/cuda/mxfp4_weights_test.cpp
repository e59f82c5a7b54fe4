// MXFP4 weights through the device: the bits of the reference of linear with the widened weights, and of the device's
// own bf16 products with them, by all kernels and at every number of rows.
// Covers: plugins/kernels/cuda/{linear_mxfp4_mma,linear_mxfp4_widened,linear_wide,mxfp4_pack}
// Covers: plugins/kernels/cuda/{mxfp4_rows,mxfp4_weight}
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/reference/linear.hpp"
#include "linear_call.hpp"
#include "linear_mxfp4/mxfp4_problem.hpp"

namespace mortise::cuda::mxfp4_weights_test {
namespace {

using cpu::Exponents;
using MxProblem = cpu::Mxfp4Problem<Bf16>;
using MxValues = cpu::reference::Mxfp4Weight;

// A matrix as a checkpoint would hand it in.
class MxSource {
 public:
  explicit MxSource(const MxValues& weight) : weight_(weight), scales_(cpu::reference::scales_of(weight)) {
    matrix_.n = static_cast<int64_t>(weight_.n);
    matrix_.k = static_cast<int64_t>(weight_.k);
    matrix_.bits = 4;
    matrix_.value_type = MORTISE_F4_E2M1;
    matrix_.group_size = 32;
    matrix_.context = this;
    matrix_.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t*) {
      const auto& source = *static_cast<const MxSource*>(context);
      const auto groups = static_cast<int64_t>(source.scales_.size() / source.weight_.n);
      const auto columns = static_cast<int64_t>(source.weight_.k);
      std::copy(&source.weight_.values[0] + n0 * columns, &source.weight_.values[0] + n1 * columns, values);
      std::copy(&source.scales_[0] + n0 * groups, &source.scales_[0] + n1 * groups, scales);
    };
  }
  MxSource(const MxSource&) = delete;
  const mortise_quantized_matrix* matrix() const { return &matrix_; }
  std::vector<float>& scales() { return scales_; }

 private:
  const MxValues weight_;
  std::vector<float> scales_;
  mortise_quantized_matrix matrix_ = sized<mortise_quantized_matrix>();
};

// A prepared weight, freed with this object.
class MxPrepared {
 public:
  MxPrepared(const std::vector<const MxSource*>& parts) {  // NOLINT: a weight of these
    std::vector<const mortise_quantized_matrix*> pointers;
    for (const MxSource* part : parts) pointers.push_back(part->matrix());
    auto source = source_of(pointers.size());
    source.quantized = pointers.data();
    prepare(source);
  }
  explicit MxPrepared(const std::vector<mortise_tensor>& parts, int32_t group = 32, int32_t dtype = MORTISE_BF16) {
    std::vector<const mortise_tensor*> pointers;
    for (const mortise_tensor& part : parts) pointers.push_back(&part);
    auto source = source_of(pointers.size());
    source.group_size = group;
    source.dtype = dtype;
    source.parts = pointers.data();
    prepare(source);
  }
  ~MxPrepared() { device().table().free_weight(device().get(), weight_); }
  MxPrepared(const MxPrepared&) = delete;
  const mortise_weight* get() const { return weight_; }

  mortise_status status = MORTISE_OK;

 private:
  static mortise_weight_source source_of(std::size_t parts) {
    auto source = sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR;
    source.dtype = MORTISE_BF16;
    source.bits = 4;
    source.value_type = MORTISE_F4_E2M1;
    source.group_size = 32;
    source.num_parts = static_cast<int32_t>(parts);
    return source;
  }
  void prepare(const mortise_weight_source& source) {
    status = device().table().prepare_weight(device().get(), &source, &weight_, &device().error);
  }
  mortise_weight* weight_ = nullptr;
};

// The NaN that linear stores is not specified.
template <typename T>
std::vector<T> canonical(std::vector<T> y) {
  for (T& value : y) {
    if constexpr (sizeof(T) == 2) {
      if ((value & 0x7fff) > 0x7f80) value = 0x7fc0;
    } else {
      if (value != value) value = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return y;
}

class CudaMxfp4Weights : public CallsLinear {
 protected:
  template <typename Out>
  std::vector<Out> product(const mortise_weight* weight, const std::vector<Bf16>& x, const LinearCall& call) {
    return canonical(CallsLinear::product<Out>(weight, x, call));
  }

  // What the reference of class cuda-bf16/1 gives for the widened weights.
  template <typename Out>
  std::vector<Out> expected(const MxProblem& p) {
    const Array<Bf16> x(p.x), w(widen_mxfp4(p.w));
    const Array<float> bias(p.bias.empty() ? std::vector<float>{0} : p.bias);
    const Array<Out> y(p.shape.m * p.shape.n);
    LinearArgs args = {};
    args.x = x.data(), args.x_stride = args.w_stride = args.k = static_cast<std::int64_t>(p.shape.k);
    args.w = w.data();
    args.bias = p.bias.empty() ? nullptr : bias.data();
    args.y = y.data(), args.y_stride = static_cast<std::int64_t>(p.shape.n);
    args.y_type = sizeof(Out) == 2 ? ElementType::kBf16 : ElementType::kF32;
    args.m = static_cast<std::int64_t>(p.shape.m), args.n = static_cast<std::int64_t>(p.shape.n);
    const auto stream = static_cast<cudaStream_t>(table().stream_native(gpu(), nullptr));
    EXPECT_EQ(reference::launch_linear(args, stream), cudaSuccess);
    return canonical(y.get());
  }
};

// One random product: shape, inputs.
struct RandomMxProduct {
  explicit RandomMxProduct(unsigned seed) : rng(seed) {
    const auto between = [&](std::size_t low, std::size_t high) {
      return std::uniform_int_distribution<std::size_t>(low, high)(rng);
    };
    constexpr std::size_t kRows[] = {1, 2, 3, 5, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 130, 257, 300},
                          kPads[] = {0, 0, 8, 3};
    shape = {kRows[between(0, std::size(kRows) - 1)], between(1, 700), between(1, 1500)};
    if (between(0, 2) == 0) shape.n = shape.n / 64 * 64 + 64, shape.k = shape.k / 128 * 128 + 128;
    x_pad = kPads[between(0, 3)];
    values = kAllValues[between(0, std::size(kAllValues) - 1)];
    exponents = between(0, 2) == 0 ? Exponents::kAll : Exponents::kUsual;
    bias = between(0, 1) == 0;
  }
  std::mt19937 rng;
  cpu::Mxfp4Shape shape = {};
  std::size_t x_pad = 0;
  Values values = Values::kNormal;
  Exponents exponents = Exponents::kUsual;
  bool bias = false;
};

TEST_F(CudaMxfp4Weights, RandomProductsHaveTheBitsOfTheWidenedWeights) {
  int failures = 0;
  for (unsigned seed = 0; seed < 500 && failures < 5; ++seed) {
    RandomMxProduct random(seed);
    MxProblem p(random.shape, random.values, seed, false, random.exponents);
    const auto bias = random_values<Bf16>(random.rng, p.shape.n);
    for (const Bf16 value : bias) {
      if (random.bias) p.bias.push_back(cpu::bf16_to_float(value));
    }
    const Weight bias_weight(MORTISE_WEIGHT_VECTOR, {vector_part(bias)});
    const MxSource source(p.w);
    const MxPrepared weight({&source});
    expect_ok(weight.status);
    const LinearCall call = {p.shape.m, p.shape.n, p.shape.k, random.x_pad, random.bias ? bias_weight.get() : nullptr};
    const auto equal = seed % 2 == 0 ? same_bits(expected<float>(p), product<float>(weight.get(), p.x, call))
                                     : same_bits(expected<Bf16>(p), product<Bf16>(weight.get(), p.x, call));
    EXPECT_TRUE(equal) << "seed " << seed << ": " << p.shape << ", pad " << random.x_pad << ", bias " << random.bias
                       << ", values " << static_cast<int>(random.values) << ", all exponents "
                       << (random.exponents == Exponents::kAll);
    if (!equal) ++failures;
  }
}

TEST_F(CudaMxfp4Weights, LargeShapesHaveTheBitsOfTheWidenedWeightsOnThisDevice) {
  for (const auto& [n, k] :
       {std::pair<std::size_t, std::size_t>(6144, 4096), {4096, 1024}, {512, 14336}, {20000, 384}}) {
    const MxProblem p({600, n, k}, Values::kNormal, 7, false);
    const MxSource source(p.w);
    const MxPrepared weight({&source});
    expect_ok(weight.status);
    const std::vector<Bf16> w = widen_mxfp4(p.w);
    const Weight widened(MORTISE_WEIGHT_LINEAR, {host_part(w, n, k)});
    for (const std::size_t m : {1, 16, 32, 48, 100, 256, 300, 600}) {
      const std::vector<Bf16> x(p.x.begin(), p.x.begin() + static_cast<std::ptrdiff_t>(m * k));
      const LinearCall call = {m, n, k, 0, nullptr, 0, 0, 0, 8};
      EXPECT_TRUE(same_bits(product<Bf16>(widened.get(), x, call), product<Bf16>(weight.get(), x, call)))
          << m << " x " << n << " x " << k;
    }
  }
}

// With many rows the weights are widened part by part into one workspace.
TEST_F(CudaMxfp4Weights, PartsOfAWideWeightDoNotOverwriteEachOther) {
  const std::size_t m = 2060, n = 20000, k = 4096;  // 164 MB widened, in three parts
  const MxProblem p({m, n, k}, Values::kNormal, 11, false);
  const MxSource source(p.w);
  const MxPrepared weight({&source});
  expect_ok(weight.status);
  std::mt19937 rng(2);
  const auto b = random_values<Bf16>(rng, n);
  const Weight bias(MORTISE_WEIGHT_VECTOR, {vector_part(b)});
  MxProblem with_bias = p;
  for (const Bf16 value : b) with_bias.bias.push_back(cpu::bf16_to_float(value));
  EXPECT_TRUE(same_bits(expected<Bf16>(with_bias), product<Bf16>(weight.get(), p.x, {m, n, k, 0, bias.get()})));
}

// Warps hand weights and x to each other through a ring: a race would show now and then only. The blocks have several
// tiles.
TEST_F(CudaMxfp4Weights, ProductsHaveTheSameBitsEveryTime) {
  const MxProblem p({256, 20000, 1152}, Values::kNormal, 9, false);
  const MxSource source(p.w);
  const MxPrepared weight({&source});
  for (const std::size_t m : {2, 15, 32, 64, 128, 256}) {
    const std::vector<Bf16> x(p.x.begin(), p.x.begin() + static_cast<std::ptrdiff_t>(m * p.shape.k));
    const LinearCall call = {m, p.shape.n, p.shape.k};
    const auto first = product<float>(weight.get(), x, call);
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(same_bits(first, product<float>(weight.get(), x, call))) << m << ", " << i;
  }
}

// Rows of ones pick single weights out of a matrix that has each value with each exponent. Denormals are not flushed.
TEST_F(CudaMxfp4Weights, EveryNumberIsWidenedExactly) {
  MxProblem p({300, 253, 32}, Values::kNormal, 1, /*with_bias=*/false);
  std::fill(p.x.begin(), p.x.end(), Bf16{0});
  for (std::size_t i = 0; i < 300; ++i) p.x[i * 32 + i % 32] = cpu::float_to_bf16(1.0f);
  for (std::size_t n = 0; n < 253; ++n) {
    p.w.exponents[n] = static_cast<std::uint8_t>(n);
    for (std::size_t j = 0; j < 32; ++j) p.w.values[n * 32 + j] = static_cast<std::uint8_t>(j % 16);
  }
  const std::vector<Bf16> w = widen_mxfp4(p.w);
  const MxSource source(p.w);
  const MxPrepared weight({&source});
  for (const std::size_t m : {std::size_t{32}, std::size_t{300}}) {
    const std::vector<Bf16> x(p.x.begin(), p.x.begin() + static_cast<std::ptrdiff_t>(m * 32));
    const auto y = product<Bf16>(weight.get(), x, {m, 253, 32});
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t n = 0; n < 253; ++n) {
        // A sum of -0 with zeros is +0.
        const Bf16 exact = w[n * 32 + i % 32] == 0x8000 ? Bf16{0} : w[n * 32 + i % 32];
        EXPECT_EQ(y[i * 253 + n], exact) << "value " << i % 16 << ", exponent " << n << ", " << m << " rows";
      }
    }
  }
}

TEST_F(CudaMxfp4Weights, FloatPartsAreRoundedAsTheReferenceRounds) {
  std::mt19937 rng(1);
  for (const Values values : {Values::kNormal, Values::kTiny, Values::kWide}) {
    for (const std::size_t k : {std::size_t{200}, std::size_t{20}}) {
      const std::size_t m = 5, n = 140;
      auto a = random_values<Bf16>(rng, 37 * k, values);
      auto b = random_values<float>(rng, (n - 37) * k, values);
      for (Bf16& value : a) {
        if (!std::isfinite(cpu::bf16_to_float(value))) value = 0;
      }
      for (float& value : b) {
        if (!std::isfinite(value)) value = 0;
      }
      std::vector<float> w;
      for (const Bf16 value : a) w.push_back(cpu::bf16_to_float(value));
      w.insert(w.end(), b.begin(), b.end());
      const MxPrepared weight(std::vector<mortise_tensor>{host_part(a, 37, k), host_part(b, n - 37, k)});
      expect_ok(weight.status);
      MxProblem p({m, n, k}, Values::kNormal, 2, false);
      p.w = cpu::reference::quantize_mxfp4(w, n, k);
      EXPECT_TRUE(same_bits(expected<float>(p), product<float>(weight.get(), p.x, {m, n, k})))
          << static_cast<int>(values) << ", k " << k;
    }
  }
}

TEST_F(CudaMxfp4Weights, PartsAreConcatenated) {
  for (const std::size_t m : {3, 50, 260}) {
    const MxProblem a({m, 70, 256}, Values::kNormal, 2, false);
    MxProblem b({m, 13, 256}, Values::kNormal, 3, false);
    b.x = a.x;
    const MxSource first(a.w), second(b.w);
    const MxPrepared weight(std::vector<const MxSource*>{&first, &second});
    expect_ok(weight.status);
    const std::vector<float> ya = expected<float>(a), yb = expected<float>(b);
    std::vector<float> y;
    for (std::size_t i = 0; i < m; ++i) {
      y.insert(y.end(), &ya[i * 70], &ya[i * 70] + 70);
      y.insert(y.end(), &yb[i * 13], &yb[i * 13] + 13);
    }
    EXPECT_TRUE(same_bits(y, product<float>(weight.get(), a.x, {m, 83, 256}))) << m;
  }
}

TEST_F(CudaMxfp4Weights, RowsAreTheSameAloneAndInAnyNumber) {
  const std::size_t n = 320, k = 640, most = 2100;
  const MxProblem p({most, n, k}, Values::kNormal, 8, false);
  const MxSource source(p.w);
  const MxPrepared weight({&source});
  const auto all = product<Bf16>(weight.get(), p.x, {most, n, k, 0, nullptr, 0, 0, 0, 8});
  for (const std::size_t m : {1, 3, 8, 9, 16, 17, 32, 33, 40, 64, 65, 100, 129, 256, 257, 300, 2048}) {
    const std::vector<Bf16> x(p.x.begin(), p.x.begin() + static_cast<std::ptrdiff_t>(m * k));
    EXPECT_TRUE(same_bits(std::vector<Bf16>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(m * n)),
                          product<Bf16>(weight.get(), x, {m, n, k})))
        << m << " rows";
  }
}

TEST_F(CudaMxfp4Weights, ColumnRangesAreColumnsOfTheWhole) {
  const std::size_t n = 1000, k = 256;
  for (const std::size_t m : {5, 40, 270, 2060}) {
    const MxProblem p({m, n, k}, Values::kNormal, 5, false);
    const MxSource source(p.w);
    const MxPrepared weight({&source});
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

TEST_F(CudaMxfp4Weights, AGatedProductIsTheProductAndThenItsActivation) {
  const std::size_t inner = 384, k = 288;
  for (const std::size_t m : {1, 40, 280, 2060}) {
    const MxProblem p({m, 2 * inner, k}, Values::kNormal, 6, false);
    const MxSource source(p.w);
    const MxPrepared weight({&source});
    const Array<Bf16> both(product<Bf16>(weight.get(), p.x, {m, 2 * inner, k})), twice(m * inner);
    const mortise_tensor both_tensor = matrix(both, m, 2 * inner), twice_tensor = matrix(twice, m, inner);
    expect_ok(table().gated_activation(gpu(), nullptr, MORTISE_ACT_SILU, &both_tensor, &twice_tensor, error()));
    EXPECT_TRUE(
        same_bits(twice.get(), product<Bf16>(weight.get(), p.x, {m, 2 * inner, k, 0, nullptr, MORTISE_ACT_SILU})));
  }
}

TEST_F(CudaMxfp4Weights, OddScalesFloatsGroupsAndTypesAreRefused) {
  const MxProblem p({1, 300, 256}, Values::kNormal, 1);
  MxSource source(p.w);
  source.scales()[257 * 8 + 3] = 0x1p126f;
  expect_invalid(MxPrepared({&source}).status, "row 257, columns from 96: the scale of MXFP4 is no power of two");
  source.scales()[257 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  expect_invalid(MxPrepared({&source}).status, "row 257, columns from 96: the scale of MXFP4 is NaN");
  std::vector<float> w(9 * 512, 1.0f);
  EXPECT_EQ(MxPrepared(std::vector<mortise_tensor>{host_part(w, 9, 512)}).status, MORTISE_OK);
  expect_invalid(MxPrepared(std::vector<mortise_tensor>{host_part(w, 9, 512)}, 64).status,
                 "4 bits of E2M1 in groups of 64; expected");
  EXPECT_EQ(MxPrepared(std::vector<mortise_tensor>{host_part(w, 9, 512)}, 32, MORTISE_F32).status,
            MORTISE_UNIMPLEMENTED);
  w[7 * 512 + 500] = std::numeric_limits<float>::quiet_NaN();
  expect_invalid(MxPrepared(std::vector<mortise_tensor>{host_part(w, 9, 512)}).status,
                 "row 7 has a weight that is NaN or infinite");
}

}  // namespace
}  // namespace mortise::cuda::mxfp4_weights_test
