// The portable path on a machine where no control register turns denormals off, compiled here with MORTISE_SOFT_FLUSH
// and run with the register as it is, against the portable path of x86, which has the register: the same bits.
#include <array>

#include "kernel_test.hpp"
#include "probe.hpp"

namespace mortise::cpu {
namespace isa_portable {
extern const Probe kProbe;
}
namespace isa_soft_flush {
extern const Probe kProbe;
}
namespace {

using Lanes = std::array<std::uint32_t, 16>;

// Operands whose product is near 2^-126, and an addend there.
void draw_near_smallest(std::mt19937& rng, std::uint32_t& a, std::uint32_t& b, std::uint32_t& c) {
  const auto with_exponent = [&](std::uint32_t exponent) {
    return (static_cast<std::uint32_t>(rng()) & 0x807fffffu) | exponent << 23;
  };
  a = with_exponent(60 + rng() % 8), b = with_exponent(60 + rng() % 8), c = with_exponent(1 + rng() % 3);
}

TEST(KernelsSoftFlush, EveryOperationGivesTheBitsOfTheHardware) {
  for (int op = 0; op < static_cast<int>(LaneOperation::kCount); ++op) {
    std::mt19937 rng(5);
    for (int round = 0; round < 3000; ++round) {
      Lanes a, b, c, hardware, soft;
      for (std::size_t i = 0; i < 16; ++i) {
        const auto any = [&] { return std::bit_cast<std::uint32_t>(draw(rng, kAllValues[round % 5])); };
        a[i] = any(), b[i] = any(), c[i] = any();
        if (round % 2 == 0) draw_near_smallest(rng, a[i], b[i], c[i]);
        if (op == static_cast<int>(LaneOperation::kFmaExactProduct)) a[i] &= 0xffff0000u, b[i] &= 0xffff0000u;
      }
      {
        DenormalsOff off;
        isa_portable::kProbe.lanes(static_cast<LaneOperation>(op), a.data(), b.data(), c.data(), hardware.data());
      }
      isa_soft_flush::kProbe.lanes(static_cast<LaneOperation>(op), a.data(), b.data(), c.data(), soft.data());
      for (std::size_t i = 0; i < 16; ++i) {
        ASSERT_EQ(hardware[i], soft[i]) << "operation " << op << " of " << std::hex << a[i] << " " << b[i] << " "
                                        << c[i];
      }
    }
  }
}

TEST(KernelsSoftFlush, EveryFunctionGivesTheBitsOfTheHardware) {
  std::vector<float> x;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 100003)
    x.push_back(float_of(static_cast<std::uint32_t>(u)));
  std::vector<float> hardware(x.size()), soft(x.size());
  for (int function = 0; function < static_cast<int>(MathFunction::kCount); ++function) {
    {
      DenormalsOff off;
      isa_portable::kProbe.math(static_cast<MathFunction>(function), x.data(), hardware.data(), x.size());
    }
    isa_soft_flush::kProbe.math(static_cast<MathFunction>(function), x.data(), soft.data(), x.size());
    EXPECT_TRUE(same_bits(hardware, soft)) << "function " << function;
  }
}

}  // namespace
}  // namespace mortise::cpu
