// The functions of math.cuh and the operations under them against the CPU's, bit by bit, on numbers of every exponent.
// Covers: plugins/kernels/cuda/{bf16,noise}
#include "kernels/cpu/reference/math.hpp"
#include "gpu_fixture.hpp"
#include "kernels/cpu/reference/noise.hpp"
#include "kernels/cpu/reference/scalar.hpp"
#include "kernels/cuda/noise_bound.hpp"
#include "probe.hpp"

namespace mortise::cuda {
namespace {

namespace reference = cpu::reference;

class KernelsCudaMath : public OnGpu {
 protected:
  // Bit patterns all over, dense around 1 and -1, and what is special.
  static std::vector<float> inputs() {
    std::vector<float> x;
    for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 2039)
      x.push_back(cpu::float_of(static_cast<std::uint32_t>(bits)));
    for (std::uint32_t i = 0; i < 1 << 18; ++i) {
      x.push_back(cpu::float_of(0x3f800000u - (1u << 17) + i));
      x.push_back(-x.back());
    }
    for (const std::uint32_t bits : {0x00000000u, 0x80000000u, 0x00000001u, 0x007fffffu, 0x00800000u, 0x7f7fffffu,
                                     0x7f800000u, 0xff800000u, 0x7fc00000u, 0xc2fc0000u, 0x43000000u}) {
      x.push_back(cpu::float_of(bits));
    }
    return x;
  }
};

TEST_F(KernelsCudaMath, FunctionsGiveTheBitsOfTheReference) {
  using Scalar = float (*)(float);
  constexpr Scalar kReferences[] = {reference::exp2,
                                    reference::exp,
                                    reference::log,
                                    reference::log1p,
                                    reference::tanh,
                                    reference::erf,
                                    reference::sigmoid,
                                    reference::silu,
                                    reference::relu,
                                    reference::gelu,
                                    reference::gelu_tanh,
                                    [](float x) { return reference::gumbel(std::bit_cast<std::uint32_t>(x)); },
                                    [](float x) { return noise_at_most(std::bit_cast<std::uint32_t>(x)); }};
  static_assert(std::size(kReferences) == static_cast<std::size_t>(Function::kCount));
  const std::vector<float> x = inputs();
  const GpuArray<float> xs(x), ys(x.size());
  for (std::size_t f = 0; f < std::size(kReferences); ++f) {
    ASSERT_EQ(launch_probe(static_cast<Function>(f), xs.data(), ys.data(), x.size()), cudaSuccess);
    const std::vector<float> y = ys.get();
    int wrong = 0;
    for (std::size_t i = 0; i < x.size() && wrong < 5; ++i) {
      const float expected = reference::canonical_nan(kReferences[f](x[i]));
      if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(y[i])) continue;
      ADD_FAILURE() << "function " << f << " of " << std::hexfloat << x[i] << ": " << expected << ", the GPU has "
                    << y[i];
      ++wrong;
    }
  }
}

TEST_F(KernelsCudaMath, TheNoiseOfEveryRandomWordIsWithinItsBounds) {
  const GpuArray<unsigned long long> wrong(std::vector<unsigned long long>(1));
  ASSERT_EQ(launch_count_wrong_bounds(wrong.data()), cudaSuccess);
  EXPECT_EQ(wrong.get()[0], 0u);
}

// If this fails, nothing else can hold. Pairs whose results lie around the smallest normal number are half of it.
TEST_F(KernelsCudaMath, OperationsRoundAndFlushAsTheCpuDoes) {
  std::mt19937 rng(1);
  std::vector<float> a, b, c;
  for (int i = 0; i < 400000; ++i) {
    const cpu::Values values = cpu::kAllValues[i % 5];
    a.push_back(cpu::draw(rng, values));
    b.push_back(cpu::draw(rng, values));
    c.push_back(cpu::draw(rng, values));
  }
  for (int i = 0; i < 200000; ++i) {  // products that round to 2^-126 from below, and quotients
    const float x = 1.0f + static_cast<float>(rng() % (1 << 23)) * 0x1p-23f;
    a.push_back(x * 0x1p-63f);
    b.push_back(static_cast<float>(1.0 / static_cast<double>(x)) * 0x1p-63f);
    c.push_back(i % 2 == 0 ? 0.0f : 0x1p-126f * static_cast<float>(i % 3 - 1));
  }
  for (int i = 0; i < 200000; ++i) {
    const float x = 1.0f + static_cast<float>(rng() % (1 << 23)) * 0x1p-23f;
    a.push_back(x * 0x1p-126f);
    b.push_back(x * (1.0f + static_cast<float>(rng() % 3) * 0x1p-23f));
    c.push_back(-a.back());
  }
  const GpuArray<float> as(a), bs(b), cs(c), ys(a.size());
  const auto expected = [&](Operation operation, std::size_t i) {
    switch (operation) {
      case Operation::kAdd:
        return a[i] + b[i];
      case Operation::kMultiply:
        return a[i] * b[i];
      case Operation::kFma:
        return cpu::soft_fma(a[i], b[i], c[i]);
      case Operation::kDivide:
        return a[i] / b[i];
      default:
        return __builtin_sqrtf(a[i]);
    }
  };
  for (int o = 0; o < static_cast<int>(Operation::kCount); ++o) {
    const auto operation = static_cast<Operation>(o);
    ASSERT_EQ(launch_operation(operation, as.data(), bs.data(), cs.data(), ys.data(), a.size()), cudaSuccess);
    const std::vector<float> y = ys.get();
    int wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float want = reference::canonical_nan(expected(operation, i));
      if (std::bit_cast<std::uint32_t>(want) == std::bit_cast<std::uint32_t>(y[i])) continue;
      if (++wrong <= 3) {
        ADD_FAILURE() << "operation " << o << " of " << std::hexfloat << a[i] << " " << b[i] << " " << c[i] << ": "
                      << want << ", the GPU has " << y[i];
      }
    }
    EXPECT_EQ(wrong, 0) << "operation " << o << " of " << a.size();
  }
}

}  // namespace
}  // namespace mortise::cuda
