// Gated products of linear_int on AMX: on emulated tiles on every machine, and on those of this one if it has them.
// Covers: plugins/kernels/cpu/amx/{beside,tiles} plugins/kernels/cpu/linear_int/{pair_tiles,unpack}
#include "linear_int/linear_int_problem.hpp"
#include "reference_activation.hpp"

namespace mortise::cpu {
namespace isa_emulated_amx {
extern const LinearIntKernels kLinearIntKernels;
}
namespace {

std::vector<const LinearIntKernels*> gating_kernels() {
  std::vector<const LinearIntKernels*> found = {&isa_emulated_amx::kLinearIntKernels};
  for (Isa isa : available_isas()) {
    if (kernels(isa).linear_int.can_gate != nullptr) found.push_back(&kernels(isa).linear_int);
  }
  return found;
}

// Two ranges of columns, as of two threads.
std::vector<Bf16> run_gated(const LinearIntKernels& kernels, const IntProblem<Bf16>& p, Activation act) {
  const auto [m, n, k, bits, group_size] = p.shape;
  const std::size_t half = n / 2, stride = half + 7, column = half / 32 * 16;
  PackedIntWeight packed(p.w, bits);
  AlignedBuffer<char> scratch(kernels.scratch_bytes(m, k, group_size));
  std::vector<Bf16> y(m * stride, 12345), dense;
  LinearIntArgs args = {};
  args.x = p.x.data(), args.x_stride = k, args.format = {bits, group_size};
  args.values = packed.values.data(), args.scales = packed.scales.data(), args.zeros = packed.zeros.data();
  args.bias = p.bias_or_null(), args.y = y.data(), args.y_stride = stride;
  args.m = m, args.n = n, args.k = k, args.scratch = scratch.data(), args.gate = act;
  EXPECT_TRUE(kernels.can_gate(args));
  kernels.prepare_bf16(args, 0, m);
  kernels.gated_to_bf16(args, {0, m, column, half});
  kernels.gated_to_bf16(args, {0, m, 0, column});
  for (std::size_t i = 0; i < m; ++i) {
    dense.insert(dense.end(), &y[i * stride], &y[i * stride] + half);
    for (std::size_t j = half; j < stride; ++j) EXPECT_EQ(y[i * stride + j], 12345) << "wrote behind row " << i;
  }
  return dense;
}

TEST(KernelsLinearIntGated, HasTheBitsOfProductAndGate) {
  DenormalsOff off;
  for (const LinearIntKernels* kernels : gating_kernels()) {
    for (int bits : {4, 8}) {
      for (std::size_t wanted : {32, 64, 128, 0}) {
        for (const auto& [m, n, k] : {std::tuple<std::size_t, std::size_t, std::size_t>(17, 32, 31),
                                      {32, 96, 64},
                                      {33, 160, 100},
                                      {75, 352, 200},
                                      {40, 64, 640}}) {
          const IntProblem<Bf16> p({m, n, k, bits, wanted == 0 ? k : wanted}, Values::kNormal, 11, m % 2 == 0);
          EXPECT_TRUE(same_bits(reference_gated(Activation::kSilu, expected(p), p.shape.m, p.shape.n),
                                run_gated(*kernels, p, Activation::kSilu)))
              << p.shape;
        }
      }
    }
  }
}

TEST(KernelsLinearIntGated, EveryActivationAndChunkHasTheBitsOfProductAndGate) {
  DenormalsOff off;
  for (const LinearIntKernels* kernels : gating_kernels()) {
    for (Activation act : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
      for (int bits : {4, 8}) {
        for (std::size_t group : {std::size_t{64}, std::size_t{4480}}) {
          const IntProblem<Bf16> p({35, 352, 4480, bits, group}, Values::kNormal, 12);
          EXPECT_TRUE(same_bits(reference_gated(act, expected(p), p.shape.m, p.shape.n), run_gated(*kernels, p, act)))
              << p.shape;
        }
      }
    }
  }
}

TEST(KernelsLinearIntGated, IsNotForFewRowsOrHalvesThatBeginWithinAPanel) {
  for (const LinearIntKernels* kernels : gating_kernels()) {
    LinearIntArgs args = {};
    args.format = {8, 64}, args.m = 17, args.n = 64, args.k = 64;
    EXPECT_TRUE(kernels->can_gate(args));
    args.n = 40;
    EXPECT_FALSE(kernels->can_gate(args));
    args.n = 64, args.m = 16;
    EXPECT_FALSE(kernels->can_gate(args));
  }
}

}  // namespace
}  // namespace mortise::cpu
