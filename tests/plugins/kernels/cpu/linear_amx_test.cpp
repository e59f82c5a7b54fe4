// The blocking of linear_amx.cpp on emulated tiles, on every machine: chunks of columns, blocks of K, rests of rows.
#include "linear_problem.hpp"

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

}  // namespace
}  // namespace mortise::cpu
