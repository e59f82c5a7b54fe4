// Compares the kernel for few rows with the plain one bit by bit: every number of rows, tiles and pieces that do not
// divide evenly, and chains of kernels that start before the preceding one ends.
// Covers: plugins/kernels/cuda/{bulk,compare,launch,linear_stream_many,tensor_map,types,weight_ring}
#include "kernels/cuda/linear_stream.hpp"

#include <algorithm>
#include <cmath>

#include "gpu_fixture.hpp"
#include "kernels/cuda/compare.hpp"
#include "kernels/cuda/reference/linear.hpp"
#include "kernels/cuda/rows.hpp"

namespace mortise::cuda::linear_stream_test {
namespace {

class KernelsCudaLinearStream : public OnHopper {
 protected:
  void SetUp() override {
    OnHopper::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(prepare_stream_kernel(), cudaSuccess);
  }

  template <typename Out>
  void expect_reference(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t pad, bool with_bias) {
    SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " pad " << pad << " bias " << with_bias);
    std::mt19937 rng(static_cast<unsigned>(m + n + k));
    const GpuArray<std::uint16_t> x(static_cast<std::size_t>(m * (k + pad))),
        w(static_cast<std::size_t>(n * (k + pad)));
    const GpuArray<float> bias(cpu::random_values<float>(rng, static_cast<std::size_t>(n)));
    ASSERT_EQ(launch_random(x.data(), m * (k + pad), 1.0f, rng(), nullptr), cudaSuccess);
    ASSERT_EQ(launch_random(w.data(), n * (k + pad), 0.5f, rng(), nullptr), cudaSuccess);
    const GpuArray<Out> expected(static_cast<std::size_t>(m * n)), y(static_cast<std::size_t>(m * n));
    LinearArgs args = {x.data(),
                       k + pad,
                       w.data(),
                       k + pad,
                       with_bias ? bias.data() : nullptr,
                       expected.data(),
                       n,
                       sizeof(Out) == 2 ? ElementType::kBf16 : ElementType::kF32,
                       m,
                       n,
                       k};
    ASSERT_TRUE(streams(args));
    ASSERT_EQ(reference::launch_linear(args, nullptr), cudaSuccess);
    args.y = y.data();
    ASSERT_EQ(launch_linear_stream(args, nullptr), cudaSuccess);
    EXPECT_TRUE(cpu::same_bits(expected.get(), y.get()));
  }

  void expect_gated(std::int64_t m, std::int64_t n, std::int64_t k, Activation activation, bool with_bias) {
    SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " activation " << static_cast<int>(activation)
                                    << " bias " << with_bias);
    std::mt19937 rng(static_cast<unsigned>(m + n + k));
    const auto size = [](std::int64_t elements) { return static_cast<std::size_t>(elements); };
    const GpuArray<std::uint16_t> x(size(m * k)), w(size(n * k)), both(size(m * n));
    const GpuArray<float> bias(cpu::random_values<float>(rng, size(n)));
    ASSERT_EQ(launch_random(x.data(), m * k, 1.0f, rng(), nullptr), cudaSuccess);
    ASSERT_EQ(launch_random(w.data(), n * k, 0.5f, rng(), nullptr), cudaSuccess);
    const GpuArray<std::uint16_t> expected(size(m * n / 2)), y(size(m * n / 2));
    LinearArgs args = {x.data(),           k, w.data(), k, with_bias ? bias.data() : nullptr, both.data(), n,
                       ElementType::kBf16, m, n,        k};
    ASSERT_EQ(reference::launch_linear(args, nullptr), cudaSuccess);
    ASSERT_EQ(
        launch_gated(activation, ElementType::kBf16, {both.data(), n}, {expected.data(), n / 2}, m, n / 2, nullptr),
        cudaSuccess);
    args.y = y.data();
    args.y_stride = n / 2;
    ASSERT_TRUE(streams_gated(args));
    ASSERT_EQ(launch_gated_stream(args, activation, nullptr), cudaSuccess);
    EXPECT_TRUE(cpu::same_bits(expected.get(), y.get()));
  }
};

TEST_F(KernelsCudaLinearStream, AGatedProductIsTheProductAndThenItsActivation) {
  for (const std::int64_t m : {1, 3, 8}) {
    for (const std::int64_t n : {32, 96, 1792, 6144, 8512}) {
      for (const std::int64_t k : {64, 256, 320, 1024}) {
        expect_gated(m, n, k, Activation::kSilu, m == 3);
        if (HasFailure()) return;
      }
    }
  }
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    expect_gated(2, 1024, 512, activation, true);
  }
  for (const std::int64_t m : {1, 7}) expect_gated(m, 28672, 4096, Activation::kSilu, false);
}

TEST_F(KernelsCudaLinearStream, GivesTheBitsOfTheReference) {
  for (const std::int64_t m : {1, 2, 5, 8, 9, 16, 17, 27, 32}) {
    for (const std::int64_t n : {1, 16, 33, 300, 2112, 4240}) {
      for (const std::int64_t k : {64, 128, 256, 320, 1024}) {
        expect_reference<std::uint16_t>(m, n, k, 0, true);
        expect_reference<float>(m, n, k, 8, false);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(KernelsCudaLinearStream, GivesThemForShapesOfLargeModels) {
  for (const std::int64_t m : {1, 4, 6, 7, 9, 32}) expect_reference<std::uint16_t>(m, 4096, 14336, 0, false);
  for (const std::int64_t m : {1, 8, 12, 32}) {
    expect_reference<std::uint16_t>(m, 28672, 4096, 0, false);
    expect_reference<float>(m, 60000, 1024, 0, false);  // 29 tiles a multiprocessor: the ring goes round many times
  }
}

// x of each product is y of the one before: a product that began to multiply too early would read what lay there.
TEST_F(KernelsCudaLinearStream, WaitsForTheKernelBefore) {
  const std::int64_t n = 2048;
  const int num_products = 12;  // each makes values 45 times as large
  for (const std::int64_t m : {1, 12, 32}) {
    std::mt19937 rng(7);
    const GpuArray<std::uint16_t> w(cpu::random_values<std::uint16_t>(rng, static_cast<std::size_t>(n * n)));
    const auto values = cpu::random_values<std::uint16_t>(rng, static_cast<std::size_t>(m * n));
    const auto chain = [&](auto launch) {
      const GpuArray<std::uint16_t> even(values), odd(static_cast<std::size_t>(m * n));
      LinearArgs args = {nullptr, n, w.data(), n, nullptr, nullptr, n, ElementType::kBf16, m, n, n};
      for (int i = 0; i < num_products; ++i) {
        args.x = i % 2 == 0 ? even.data() : odd.data();
        args.y = i % 2 == 0 ? odd.data() : even.data();
        EXPECT_EQ(launch(args), cudaSuccess);
      }
      return even.get();
    };
    const auto expected = chain([](const LinearArgs& args) { return reference::launch_linear(args, nullptr); });
    for (int repeat = 0; repeat < 5; ++repeat) {
      EXPECT_TRUE(
          cpu::same_bits(expected, chain([](const LinearArgs& args) { return launch_linear_stream(args, nullptr); })))
          << m << " rows";
    }
  }
}

TEST_F(KernelsCudaLinearStream, AGatedProductWaitsForTheKernelBefore) {
  const std::int64_t k = 1024, n = 2 * k;
  std::mt19937 rng(8);
  const GpuArray<std::uint16_t> w(static_cast<std::size_t>(n * k));
  ASSERT_EQ(launch_random(w.data(), n * k, 0.3f / std::sqrt(static_cast<float>(k)), rng(), nullptr), cudaSuccess);
  const GpuArray<float> bias(std::vector<float>(static_cast<std::size_t>(n), 1.0f));  // keeps numbers around 1
  const auto values = cpu::random_values<std::uint16_t>(rng, static_cast<std::size_t>(4 * k));
  const GpuArray<std::uint16_t> both(static_cast<std::size_t>(4 * n));
  const auto chain = [&](auto launch) {
    const GpuArray<std::uint16_t> even(values), odd(values);
    LinearArgs args = {nullptr, k, w.data(), k, bias.data(), nullptr, k, ElementType::kBf16, 4, n, k};
    for (int i = 0; i < 12; ++i) {
      args.x = i % 2 == 0 ? even.data() : odd.data();
      args.y = i % 2 == 0 ? odd.data() : even.data();
      EXPECT_EQ(launch(args), cudaSuccess);
    }
    return even.get();
  };
  const auto expected = chain([&](LinearArgs args) {
    const Rows out = {args.y, k};
    args.y = both.data();
    args.y_stride = n;
    EXPECT_EQ(reference::launch_linear(args, nullptr), cudaSuccess);
    return launch_gated(Activation::kRelu, ElementType::kBf16, {both.data(), n}, out, 4, k, nullptr);
  });
  // Infinities and NaN have an exponent of ones, and would hide what was read.
  EXPECT_GT(
      std::ranges::count_if(expected, [](std::uint16_t bits) { return bits != 0 && (bits & 0x7f80u) != 0x7f80u; }),
      4 * k * 9 / 10);
  for (int repeat = 0; repeat < 5; ++repeat) {
    EXPECT_TRUE(cpu::same_bits(
        expected, chain([](const LinearArgs& args) { return launch_gated_stream(args, Activation::kRelu, nullptr); })));
  }
}

TEST_F(KernelsCudaLinearStream, AGatedProductOfManyRowsOrOfOddTilesIsLeftToOthers) {
  const GpuArray<std::uint16_t> x(std::size_t{16} << 10), w(96 * 64);
  const auto takes = [&](std::int64_t m, std::int64_t n, ElementType type) {
    return streams_gated({x.data(), 64, w.data(), 64, nullptr, nullptr, n / 2, type, m, n, 64});
  };
  EXPECT_TRUE(takes(8, 96, ElementType::kBf16));
  EXPECT_FALSE(takes(9, 96, ElementType::kBf16));
  EXPECT_FALSE(takes(8, 80, ElementType::kBf16));  // true: half of it is two tiles and a half
  EXPECT_FALSE(takes(8, 96, ElementType::kF32));
}

TEST_F(KernelsCudaLinearStream, LeavesWhatItCannotReadToOthers) {
  const GpuArray<std::uint16_t> x(std::size_t{16} << 10), w(64 * 64);
  const auto takes = [&](std::int64_t m, std::int64_t k, std::int64_t x_stride, const std::uint16_t* weights) {
    return streams({x.data(), x_stride, weights, k, nullptr, nullptr, 64, ElementType::kBf16, m, 64, k});
  };
  EXPECT_TRUE(takes(8, 64, 64, w.data()));
  EXPECT_TRUE(takes(32, 64, 64, w.data()));
  EXPECT_FALSE(takes(33, 64, 64, w.data()));
  EXPECT_FALSE(takes(1, 32, 32, w.data()));
  EXPECT_FALSE(takes(1, 64, 65, w.data()));
  EXPECT_FALSE(takes(1, 64, 64, w.data() + 1));
}

}  // namespace
}  // namespace mortise::cuda::linear_stream_test
