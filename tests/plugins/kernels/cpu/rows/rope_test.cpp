// Rope on every instruction set against its scalar reference, bit by bit.
// Covers: plugins/kernels/cpu/reference/rope
#include <gmock/gmock.h>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/rope.hpp"

namespace mortise::cpu {
namespace {

class KernelsRope : public OnEachIsa {};
MORTISE_ON_EACH_ISA(KernelsRope);

template <class T, class Rotate>
void expect_reference(Rotate rotate, bool interleaved, std::size_t head_dim, std::size_t rotary_dim, Values values) {
  constexpr std::size_t kHeads = 3;
  std::mt19937 rng(static_cast<unsigned>(head_dim * 1000 + rotary_dim));
  const std::size_t stride = head_dim + 8;
  std::vector<T> x = random_values<T>(rng, kHeads * stride, values), expected = x;
  const std::vector<float> cos = random_values<float>(rng, rotary_dim / 2),
                           sin = random_values<float>(rng, rotary_dim / 2);
  for (std::size_t h = 0; h < kHeads; ++h) {
    std::vector<float> head(rotary_dim);
    for (std::size_t i = 0; i < rotary_dim; ++i) {
      if constexpr (sizeof(T) == 2) {
        head[i] = bf16_to_float(x[h * stride + i]);
      } else {
        head[i] = x[h * stride + i];
      }
    }
    const auto pairs = interleaved ? reference::RopePairs::kInterleaved : reference::RopePairs::kHalves;
    reference::rope<T>(pairs, head.data(), cos.data(), sin.data(), rotary_dim);
    for (std::size_t i = 0; i < rotary_dim; ++i) {
      if constexpr (sizeof(T) == 2) {
        expected[h * stride + i] = float_to_bf16(head[i]);
      } else {
        expected[h * stride + i] = head[i];
      }
    }
  }
  rotate(x.data(), kHeads, static_cast<std::ptrdiff_t>(stride), cos.data(), sin.data(), rotary_dim);
  EXPECT_TRUE(same_bits(expected, x)) << "head_dim " << head_dim << ", rotary_dim " << rotary_dim
                                      << (interleaved ? ", interleaved" : "");
}

TEST_P(KernelsRope, HasTheBitsOfTheReference) {
  const RopeKernels& rope = kernels().rope;
  for (const auto& [head_dim, rotary_dim] : {std::pair<std::size_t, std::size_t>{8, 8},
                                             {24, 24},
                                             {48, 48},
                                             {64, 64},
                                             {80, 32},
                                             {96, 96},
                                             {128, 128},
                                             {128, 6},
                                             {256, 64},
                                             {256, 256}}) {
    for (Values values : kAllValues) {
      expect_reference<Bf16>(rope.rotate_bf16, false, head_dim, rotary_dim, values);
      expect_reference<Bf16>(rope.rotate_interleaved_bf16, true, head_dim, rotary_dim, values);
      expect_reference<float>(rope.rotate_f32, false, head_dim, rotary_dim, values);
      expect_reference<float>(rope.rotate_interleaved_f32, true, head_dim, rotary_dim, values);
    }
  }
}

TEST_P(KernelsRope, AQuarterTurnSwapsTheHalvesOfAPair) {
  const float cos[] = {0, 1}, sin[] = {1, 0};
  float x[] = {1, 2, 3, 4};
  kernels().rope.rotate_f32(x, 1, 4, cos, sin, 4);
  EXPECT_THAT(x, testing::ElementsAre(-3, 2, 1, 4));  // pairs (1, 3) and (2, 4)
  float y[] = {1, 2, 3, 4};
  kernels().rope.rotate_interleaved_f32(y, 1, 4, cos, sin, 4);
  EXPECT_THAT(y, testing::ElementsAre(-2, 1, 3, 4));  // pairs (1, 2) and (3, 4)
}

}  // namespace
}  // namespace mortise::cpu
