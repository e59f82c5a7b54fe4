// Compares gated products of many rows with the plain product and its activation bit by bit: rows and columns that fill
// no tile, each tile size, one and many tiles for a block, and chains of kernels that start before the preceding one
// ends.
// Covers: plugins/kernels/cuda/{gated,gated_tile}
#include "kernels/cuda/linear_gated.hpp"

#include <algorithm>
#include <cmath>

#include "gpu_fixture.hpp"
#include "kernels/cuda/compare.hpp"
#include "kernels/cuda/reference/linear.hpp"
#include "kernels/cuda/rows.hpp"

namespace mortise::cuda::linear_gated_test {
namespace {

std::size_t size(std::int64_t elements) {
  return static_cast<std::size_t>(elements);
}

// A product whose operands have `pad` elements between rows, and its weights times `scale`.
struct Case {
  std::int64_t m, n, k, pad = 8;
  Activation activation = Activation::kSilu;
  bool bias = false;
  float scale = 0.5f;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.m << " x " << c.n << " x " << c.k << " pad " << c.pad << " activation "
             << static_cast<int>(c.activation) << " bias " << c.bias << " scale " << c.scale;
}

class KernelsCudaLinearGated : public OnHopper {
 protected:
  void SetUp() override {
    OnHopper::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(prepare_linear_gated_kernels(), cudaSuccess);
  }

  // y has rows behind the last, and columns behind those of a row: nothing may be written there.
  template <typename Launch>
  void expect_reference(const Case& c, const Launch& launch) {
    SCOPED_TRACE(testing::Message() << c);
    std::mt19937 rng(static_cast<unsigned>(c.m + c.n + c.k));
    const std::int64_t stride = c.k + c.pad, half = c.n / 2, y_stride = half + c.pad;
    const GpuArray<std::uint16_t> x(size(c.m * stride)), w(size(c.n * stride)), both(size(c.m * c.n));
    const GpuArray<float> bias(cpu::random_values<float>(rng, size(c.n)));
    ASSERT_EQ(launch_random(x.data(), c.m * stride, 1.0f, rng(), nullptr), cudaSuccess);
    ASSERT_EQ(launch_random(w.data(), c.n * stride, c.scale, rng(), nullptr), cudaSuccess);
    const GpuArray<std::uint16_t> expected(size((c.m + 2) * y_stride)), y(size((c.m + 2) * y_stride));
    LinearArgs args = {x.data(),           stride, w.data(), stride, c.bias ? bias.data() : nullptr, both.data(), c.n,
                       ElementType::kBf16, c.m,    c.n,      c.k};
    ASSERT_EQ(reference::launch_linear(args, nullptr), cudaSuccess);
    ASSERT_EQ(launch_gated(c.activation, ElementType::kBf16, {both.data(), c.n}, {expected.data(), y_stride}, c.m, half,
                           nullptr),
              cudaSuccess);
    args.y = y.data();
    args.y_stride = y_stride;
    ASSERT_EQ(launch(args), cudaSuccess);
    EXPECT_TRUE(cpu::same_bits(expected.get(), y.get()));
  }
  void expect_reference(const Case& c) {
    expect_reference(c, [&](const LinearArgs& args) { return launch_linear_gated(args, c.activation, nullptr); });
  }
};

// Few blocks have many tiles each. Odd numbers of row tiles leave the second block of a cluster without rows.
TEST_F(KernelsCudaLinearGated, HasTheBitsOfTheReferenceWithEachTileSize) {
  for (int tile_size = 0; tile_size < kNumGatedTileSizes; ++tile_size) {
    for (const int blocks : {2, 6, 1000}) {
      for (const std::int64_t m : {1, 33, 64, 65, 128, 129, 160, 192, 256, 300, 400, 2100}) {
        for (const std::int64_t n : {16, 208, 224, 256, 1040}) {
          for (const std::int64_t k : {64, 192, 320}) {
            if ((m > 400 || blocks == 6) && (k != 192 || n == 16)) continue;
            const Case c = {.m = m, .n = n, .k = k, .pad = k == 64 ? 0 : 8, .bias = m % 3 == 0};
            expect_reference(c, [&](const LinearArgs& args) {
              return launch_linear_gated_with(tile_size, blocks, args, c.activation, nullptr);
            });
            if (HasFailure()) FAIL() << "tile size " << tile_size << ", " << blocks << " blocks";
          }
        }
      }
    }
  }
}

TEST_F(KernelsCudaLinearGated, HasEachActivation) {
  for (const Activation activation : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (const bool bias : {false, true}) {
      // Sums of every size: denormal, so small that the product with the up underflows, usual, so large that e^x rounds
      // to 0 or overflows, and infinite.
      for (const float scale : {1e-39f, 1e-20f, 1e-3f, 0.5f, 1e2f, 1e19f, 3e38f}) {
        expect_reference({.m = 140, .n = 2048, .k = 256, .activation = activation, .bias = bias, .scale = scale});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(KernelsCudaLinearGated, ServesShapesOfLargeModels) {
  for (const std::int64_t m : {40, 128, 192, 256, 2500}) expect_reference({.m = m, .n = 28672, .k = 4096});
  for (const std::int64_t m : {64, 256, 1000}) expect_reference({.m = m, .n = 16384, .k = 2048});
}

// x of each product is y of the one before: a product that began to multiply too early would read what lay there. The
// bias keeps numbers around 1.
TEST_F(KernelsCudaLinearGated, WaitsForTheKernelBefore) {
  const std::int64_t k = 2048, n = 2 * k;
  std::mt19937 rng(8);
  const GpuArray<std::uint16_t> w(size(n * k));
  ASSERT_EQ(launch_random(w.data(), n * k, 0.3f / std::sqrt(static_cast<float>(k)), rng(), nullptr), cudaSuccess);
  const GpuArray<float> bias(std::vector<float>(size(n), 1.0f));
  for (const std::int64_t m : {40, 180, 256, 600}) {
    const auto values = cpu::random_values<std::uint16_t>(rng, size(m * k));
    const GpuArray<std::uint16_t> both(size(m * n));
    const auto chain = [&](auto launch) {
      const GpuArray<std::uint16_t> even(values), odd(values);
      LinearArgs args = {nullptr, k, w.data(), k, bias.data(), nullptr, k, ElementType::kBf16, m, n, k};
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
      return launch_gated(Activation::kRelu, ElementType::kBf16, {both.data(), n}, out, m, k, nullptr);
    });
    // Infinities and NaN have an exponent of ones, and would hide what was read.
    const auto usual =
        std::ranges::count_if(expected, [](std::uint16_t bits) { return bits != 0 && (bits & 0x7f80u) != 0x7f80u; });
    EXPECT_GT(usual, m * k * 9 / 10);
    for (int repeat = 0; repeat < 5; ++repeat) {
      EXPECT_TRUE(cpu::same_bits(expected, chain([](const LinearArgs& args) {
                                   return launch_linear_gated(args, Activation::kRelu, nullptr);
                                 })))
          << m << " rows";
    }
  }
}

TEST_F(KernelsCudaLinearGated, NoRowsAreNoWork) {
  const GpuArray<std::uint16_t> w(std::size_t{64} * 64);
  EXPECT_EQ(launch_linear_gated({nullptr, 64, w.data(), 64, nullptr, nullptr, 32, ElementType::kBf16, 0, 64, 64},
                                Activation::kSilu, nullptr),
            cudaSuccess);
}

TEST_F(KernelsCudaLinearGated, LeavesToOthersWhatItCannotReadOrWhatIsSmall) {
  const GpuArray<std::uint16_t> x(std::size_t{64} * 4096), w(std::size_t{1});  // nothing is launched
  const auto serves = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t x_stride,
                          const std::uint16_t* weights, ElementType type) {
    return serves_linear_gated({x.data(), x_stride, weights, k, nullptr, x.data(), n / 2, type, m, n, k});
  };
  EXPECT_TRUE(serves(64, 28672, 1024, 1024, w.data(), ElementType::kBf16));
  EXPECT_TRUE(serves(256, 28672, 1024, 1024, w.data(), ElementType::kBf16));
  EXPECT_FALSE(serves(192, 28672, 1024, 1024, w.data(), ElementType::kBf16));
  EXPECT_FALSE(serves(32, 28672, 1024, 1024, w.data(), ElementType::kBf16));
  EXPECT_FALSE(serves(64, 2048, 1024, 1024, w.data(), ElementType::kBf16));
  EXPECT_FALSE(serves(64, 28664, 1024, 1024, w.data(), ElementType::kBf16));
  EXPECT_FALSE(serves(64, 28672, 960, 1024, w.data(), ElementType::kBf16));
  EXPECT_FALSE(serves(64, 28672, 1056, 1056, w.data(), ElementType::kBf16));
  EXPECT_FALSE(serves(64, 28672, 1024, 1025, w.data(), ElementType::kBf16));
  EXPECT_FALSE(serves(64, 28672, 1024, 1024, w.data() + 1, ElementType::kBf16));
  EXPECT_FALSE(serves(64, 28672, 1024, 1024, w.data(), ElementType::kF32));
}

}  // namespace
}  // namespace mortise::cuda::linear_gated_test
