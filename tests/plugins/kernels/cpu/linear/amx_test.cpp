// The blocking of linear/amx.cpp on emulated tiles, on every machine: chunks of columns, blocks of K, rests of rows.
// Covers: plugins/kernels/cpu/amx/{beside,tiles}
#include "linear/linear_problem.hpp"
#include "reference_activation.hpp"

namespace mortise::cpu {
namespace isa_emulated_amx {
extern const LinearBf16Kernels kLinearBf16Kernels;
}
namespace {

const LinearBf16Kernels& emulated() {
  return isa_emulated_amx::kLinearBf16Kernels;
}

TEST(KernelsLinearEmulatedAmx, EveryRowCountGivesTheBitsOfTheReference) {
  DenormalsOff off;
  for (std::size_t m = 1; m <= 33; ++m) {
    const Problem<Bf16> p({m, 52, 100}, Values::kNormal, m % 2 == 0, 17 + m);
    EXPECT_TRUE(same_bits(expected(p), run<Bf16, float>(emulated().to_f32, p))) << "m " << m;
  }
}

TEST(KernelsLinearEmulatedAmx, EveryBlockingGivesTheBitsOfTheReference) {
  DenormalsOff off;
  for (const Shape& s : {Shape{1, 1, 1}, Shape{5, 80, 64}, Shape{16, 130, 33}, Shape{17, 16, 544}, Shape{64, 48, 1100},
                         Shape{50, 1100, 40}, Shape{33, 160, 4200}}) {
    const Problem<Bf16> p(s, Values::kNormal, true, 5);
    const auto y = expected(p);
    SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k);
    EXPECT_TRUE(same_bits(y, run<Bf16, float>(emulated().to_f32, p)));
    EXPECT_TRUE(same_bits(rounded(y), run<Bf16, Bf16>(emulated().to_bf16, p)));
  }
}

TEST(KernelsLinearEmulatedAmx, NoSplitOfTheWorkChangesABit) {
  DenormalsOff off;
  const Problem<Bf16> p({75, 176, 200}, Values::kNormal, true, 9);
  const auto y = expected(p);
  for (const auto& [split_m, split_n] : {std::pair<std::size_t, std::size_t>(32, 48), {64, 160}, {0, 16}}) {
    EXPECT_TRUE(same_bits(y, run<Bf16, float>(emulated().to_f32, p, split_m, split_n)));
  }
}

TEST(KernelsLinearEmulatedAmx, AGatedProductHasTheBitsOfBothSteps) {
  DenormalsOff off;
  for (const Shape& s : {Shape{17, 32, 31}, Shape{32, 96, 64}, Shape{33, 160, 100}, Shape{75, 352, 200},
                         Shape{64, 2400, 40}, Shape{48, 96, 4200}}) {
    for (bool with_bias : {false, true}) {
      const Problem<Bf16> p(s, Values::kNormal, with_bias, 11);
      const std::size_t half = s.n / 2, stride = half + 7;
      AlignedBuffer<char> packed = pack(p.w, s.n, s.k);
      std::vector<Bf16> y(s.m * stride, 12345), dense;
      LinearArgs args = {p.x.data(), s.k, packed.data(), p.bias_or_null(), y.data(), stride, s.m, s.n, s.k, nullptr};
      args.gate = Activation::kSilu;
      const std::size_t column = half / 32 * 16;  // two ranges, as of two threads
      emulated().to_bf16.run_gated(args, {0, s.m, column, half});
      emulated().to_bf16.run_gated(args, {0, s.m, 0, column});
      for (std::size_t i = 0; i < s.m; ++i) {
        dense.insert(dense.end(), &y[i * stride], &y[i * stride] + half);
        for (std::size_t j = half; j < stride; ++j) ASSERT_EQ(y[i * stride + j], 12345) << "wrote behind row " << i;
      }
      EXPECT_TRUE(same_bits(reference_gated(Activation::kSilu, expected(p), s.m, s.n), dense))
          << s.m << " x " << s.n << " x " << s.k << " bias " << with_bias;
    }
  }
}

}  // namespace
}  // namespace mortise::cpu
