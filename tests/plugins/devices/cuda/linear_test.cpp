// linear: whatever algorithm serves, the bits are those of the plain mma.sync reference, at every number of rows.
// Covers: plugins/devices/checks/{linear,matrix,weight}
// Covers: plugins/devices/cuda/{cublaslt,cublaslt_loading,linear_plans,lt_matmul,matrix}
#include <cmath>

#include "device_fixture.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "kernels/cuda/reference/linear.hpp"

namespace mortise::cuda::linear_test {
namespace {

struct Problem {
  std::size_t m, n, k;
  bool bias = false, f32_out = false;
  std::size_t x_pad = 0;
};

class CudaLinear : public OnGpu {
 protected:
  // The bits of the reference kernel for rows of x.
  template <typename Out>
  std::vector<Out> reference(const Problem& p, const Array<Bf16>& x, const Array<Bf16>& w,
                             const std::vector<float>& bias) {
    const Array<Out> y(p.m * p.n);
    const Array<float> b(bias.empty() ? std::vector<float>(1) : bias);
    LinearArgs args = {};
    args.x = x.data();
    args.x_stride = static_cast<std::int64_t>(p.k + p.x_pad);
    args.w = w.data();
    args.w_stride = static_cast<std::int64_t>(p.k);
    args.bias = p.bias ? b.data() : nullptr;
    args.y = y.data();
    args.y_stride = static_cast<std::int64_t>(p.n);
    args.y_type = sizeof(Out) == 2 ? ElementType::kBf16 : ElementType::kF32;
    args.m = static_cast<std::int64_t>(p.m);
    args.n = static_cast<std::int64_t>(p.n);
    args.k = static_cast<std::int64_t>(p.k);
    const auto stream = static_cast<cudaStream_t>(table().stream_native(gpu(), nullptr));
    EXPECT_EQ(reference::launch_linear(args, stream), cudaSuccess);
    return y.get();
  }

  std::string algorithm_of(const Problem& p) const {
    if (gpu()->linear == nullptr) return "linear_mma";
    return gpu()->linear->describe({static_cast<std::int64_t>(p.n), static_cast<std::int64_t>(p.k), p.f32_out, p.bias,
                                    LinearPlans::bucket(static_cast<std::int64_t>(p.m))});
  }

  template <typename Out>
  void expect_reference(const Problem& p) {
    SCOPED_TRACE(testing::Message() << p.m << " rows, n " << p.n << ", k " << p.k << ", bias " << p.bias << ", f32 "
                                    << p.f32_out << ", pad " << p.x_pad);
    std::mt19937 rng(static_cast<unsigned>(p.m * 31 + p.n + p.k));
    const auto x = random_values<Bf16>(rng, p.m * (p.k + p.x_pad));
    auto w = random_values<Bf16>(rng, p.n * p.k);
    const auto b = random_values<Bf16>(rng, p.n);
    std::vector<float> wide;
    for (Bf16 value : b) wide.push_back(cpu::bf16_to_float(value));
    const Array<Bf16> xs(x), ws(w);
    const std::vector<Out> expected = reference<Out>(p, xs, ws, wide);
    const Weight weight(MORTISE_WEIGHT_LINEAR, {host_part(w, p.n, p.k)}), bias(MORTISE_WEIGHT_VECTOR, {vector_part(b)});
    const Array<Out> y(p.m * p.n);
    const mortise_tensor x_tensor = matrix(xs, p.m, p.k, p.k + p.x_pad), y_tensor = matrix(y, p.m, p.n);
    auto args = sized<mortise_linear_args>();
    args.x = &x_tensor;
    args.weight = weight.get();
    if (p.bias) args.bias = bias.get();
    args.out = &y_tensor;
    expect_ok(table().linear(gpu(), nullptr, &args, error()));
    EXPECT_TRUE(same_bits(expected, y.get()));
    std::printf("  %5zu x %6zu x %5zu%s%s: %s\n", p.m, p.n, p.k, p.bias ? " bias" : "", p.f32_out ? " f32" : "",
                algorithm_of(p).c_str());
  }

  void expect_bits(const Problem& p) { p.f32_out ? expect_reference<float>(p) : expect_reference<Bf16>(p); }
};

TEST_F(CudaLinear, GivesTheBitsOfTheReferenceAtEveryNumberOfRows) {
  for (const std::size_t m : {1, 2, 3, 7, 16, 17, 33, 64, 100, 257, 1000}) {
    expect_bits({m, 768, 768});
    expect_bits({m, 1152, 288, true});
    expect_bits({m, 4096, 288, false, true});
  }
}

TEST_F(CudaLinear, SizesThatNoAlgorithmTakesAreServedByItsOwnKernel) {
  for (const std::size_t m : {1, 8, 9, 20, 70}) {
    expect_bits({m, 77, 40});
    expect_bits({m, 100, 37, true});           // rows of weights that are not aligned
    expect_bits({m, 64, 64, false, true, 3});  // rows of x that are not
    expect_bits({m, 8, 8});
    expect_bits({m, 3, 1, true, true});
  }
}

TEST_F(CudaLinear, LargeShapes) {
  for (const std::size_t m : {1, 32, 300}) {
    expect_bits({m, 6144, 4096});
    expect_bits({m, 4096, 14336});
  }
}

// The reference itself, against double arithmetic.
TEST_F(CudaLinear, TheReferenceIsAProductOfMatrices) {
  const Problem p = {5, 40, 1000, true, true};
  std::mt19937 rng(1);
  const auto x = random_values<Bf16>(rng, p.m * p.k), w = random_values<Bf16>(rng, p.n * p.k);
  const std::vector<float> bias = random_values<float>(rng, p.n);
  const Array<Bf16> xs(x), ws(w);
  const std::vector<float> y = reference<float>(p, xs, ws, bias);
  for (std::size_t m = 0; m < p.m; ++m) {
    for (std::size_t n = 0; n < p.n; ++n) {
      double sum = static_cast<double>(bias[n]), magnitude = std::abs(sum);
      for (std::size_t k = 0; k < p.k; ++k) {
        const double product = static_cast<double>(cpu::bf16_to_float(x[m * p.k + k])) *
                               static_cast<double>(cpu::bf16_to_float(w[n * p.k + k]));
        sum += product;
        magnitude += std::abs(product);
      }
      EXPECT_NEAR(y[m * p.n + n], sum, magnitude * 0x1p-16) << m << " " << n;
    }
  }
}

TEST_F(CudaLinear, ColumnRangesAreColumnsOfTheWhole) {
  const std::size_t m = 5, n = 1000, k = 256;
  std::mt19937 rng(2);
  const auto x = random_values<Bf16>(rng, m * k), w = random_values<Bf16>(rng, n * k), b = random_values<Bf16>(rng, n);
  const Weight weight(MORTISE_WEIGHT_LINEAR, {host_part(w, n, k)}), bias(MORTISE_WEIGHT_VECTOR, {vector_part(b)});
  const Array<Bf16> xs(x);
  const Array<float> whole(m * n), part(m * 320);
  const mortise_tensor x_tensor = matrix(xs, m, k), whole_tensor = matrix(whole, m, n);
  auto args = sized<mortise_linear_args>();
  args.x = &x_tensor;
  args.weight = weight.get();
  args.bias = bias.get();
  args.out = &whole_tensor;
  expect_ok(table().linear(gpu(), nullptr, &args, error()));
  const auto all = whole.get();
  for (const auto& [begin, end] : {std::pair<int32_t, int32_t>{0, 320}, {64, 128}, {832, 1000}}) {
    const auto width = static_cast<std::size_t>(end - begin);
    const mortise_tensor out = matrix(part, m, width);
    args.out = &out;
    args.column_begin = begin;
    args.column_end = end;
    expect_ok(table().linear(gpu(), nullptr, &args, error()));
    const auto got = part.get();
    for (std::size_t r = 0; r < m; ++r) {
      EXPECT_TRUE(same_bits(&all[r * n + static_cast<std::size_t>(begin)], &got[r * width], width)) << begin;
    }
  }
  args.out = &whole_tensor;
  args.column_begin = 1;
  expect_invalid(table().linear(gpu(), nullptr, &args, error()), "expected multiples of 64, or the end");
}

TEST_F(CudaLinear, AGatedProductIsTheProductAndThenItsActivation) {
  // One kernel does it if K is a multiple of 64 and there are few rows, or many and K is at least 1024.
  for (const auto& [m, k] : {std::pair<std::size_t, std::size_t>{1, 288},
                             {40, 288},
                             {1, 320},
                             {8, 320},
                             {9, 320},
                             {600, 320},
                             {600, 1024},
                             {601, 1032}}) {
    const std::size_t inner = 768;
    std::mt19937 rng(4);
    const auto x = random_values<Bf16>(rng, m * k), w = random_values<Bf16>(rng, 2 * inner * k);
    const Weight weight(MORTISE_WEIGHT_LINEAR, {host_part(w, 2 * inner, k)});
    const Array<Bf16> xs(x), both(m * 2 * inner), once(m * inner), twice(m * inner);
    const mortise_tensor x_tensor = matrix(xs, m, k), both_tensor = matrix(both, m, 2 * inner);
    const mortise_tensor once_tensor = matrix(once, m, inner), twice_tensor = matrix(twice, m, inner);
    auto args = sized<mortise_linear_args>();
    args.x = &x_tensor;
    args.weight = weight.get();
    args.out = &both_tensor;
    expect_ok(table().linear(gpu(), nullptr, &args, error()));
    expect_ok(table().gated_activation(gpu(), nullptr, MORTISE_ACT_SILU, &both_tensor, &twice_tensor, error()));
    args.out = &once_tensor;
    args.gate_activation = MORTISE_ACT_SILU;
    expect_ok(table().linear(gpu(), nullptr, &args, error()));
    EXPECT_TRUE(same_bits(twice.get(), once.get()));
  }
}

TEST_F(CudaLinear, ShapesThatDoNotFitAreNamed) {
  const Weight weight(MORTISE_WEIGHT_LINEAR, {host_part(std::vector<Bf16>(64 * 32), 64, 32)});
  const Array<Bf16> x(64), y(64);
  const mortise_tensor x_tensor = matrix(x, 2, 31), y_tensor = matrix(y, 1, 64);
  auto args = sized<mortise_linear_args>();
  args.x = &x_tensor;
  args.weight = weight.get();
  args.out = &y_tensor;
  expect_invalid(table().linear(gpu(), nullptr, &args, error()), "x bf16 [2, 31] does not fit weight bf16 [64, 32]");
}

}  // namespace
}  // namespace mortise::cuda::linear_test
