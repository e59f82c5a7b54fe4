// The kernel that streams weights against the plain one, bit by bit, on every kind of tile and alignment.
// Covers: plugins/kernels/cuda/mma plugins/kernels/cuda/reference/linear
#include "kernels/cuda/linear_mma.hpp"

#include "gpu_fixture.hpp"
#include "kernels/cuda/reference/linear.hpp"

namespace mortise::cuda::linear_mma_test {
namespace {

class KernelsCudaLinear : public OnGpu {
 protected:
  template <typename Out>
  void expect_reference(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t pad, bool with_bias) {
    SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " pad " << pad << " bias " << with_bias);
    std::mt19937 rng(static_cast<unsigned>(m + n + k));
    const GpuArray<std::uint16_t> x(cpu::random_values<std::uint16_t>(rng, static_cast<std::size_t>(m * (k + pad))));
    const GpuArray<std::uint16_t> w(cpu::random_values<std::uint16_t>(rng, static_cast<std::size_t>(n * k)));
    const GpuArray<float> bias(cpu::random_values<float>(rng, static_cast<std::size_t>(n)));
    const GpuArray<Out> expected(static_cast<std::size_t>(m * n)), y(static_cast<std::size_t>(m * n));
    LinearArgs args = {x.data(),
                       k + pad,
                       w.data(),
                       k,
                       with_bias ? bias.data() : nullptr,
                       expected.data(),
                       n,
                       sizeof(Out) == 2 ? ElementType::kBf16 : ElementType::kF32,
                       m,
                       n,
                       k};
    ASSERT_EQ(reference::launch_linear(args, nullptr), cudaSuccess);
    args.y = y.data();
    ASSERT_EQ(launch_linear_mma(args, nullptr), cudaSuccess);
    EXPECT_TRUE(cpu::same_bits(expected.get(), y.get()));
  }
};

TEST_F(KernelsCudaLinear, EveryTileGivesTheBitsOfTheReference) {
  ASSERT_EQ(prepare_linear_kernels(), cudaSuccess);
  for (const std::int64_t m : {1, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 130}) {
    for (const std::int64_t n : {1, 16, 33, 128, 300}) {
      for (const std::int64_t k : {1, 8, 16, 24, 63, 64, 65, 256, 1000}) {
        expect_reference<std::uint16_t>(m, n, k, 0, true);
        expect_reference<float>(m, n, k, k % 3, false);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cuda::linear_mma_test
