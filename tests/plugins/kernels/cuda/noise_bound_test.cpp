// The bounds of noise that let the GPU skip logarithms, on the host: never below the noise, and close enough to be of
// use. math_test.cpp compares every random word on a GPU.
#include "kernels/cuda/noise_bound.hpp"

#include <algorithm>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/noise.hpp"

namespace mortise::cuda {
namespace {

namespace reference = cpu::reference;

class NoiseBound : public testing::Test {
 protected:
  // Words all over, all small ones, and the neighbourhoods of each power of two and of the words halfway between, where
  // f32(r) rounds in either direction and the chord of the logarithm begins and ends.
  static std::vector<std::uint32_t> words() {
    std::vector<std::uint32_t> words;
    for (std::uint32_t r = 0; r < 1u << 16; ++r) {
      words.push_back(r);
      words.push_back(~r);
    }
    for (int exponent = 16; exponent < 32; ++exponent) {
      for (const std::uint32_t middle : {1u << exponent, 3u << (exponent - 1)}) {
        for (std::uint32_t i = 0; i < 2048; ++i) words.push_back(middle - 1024 + i);
      }
    }
    for (std::uint64_t r = 0; r < std::uint64_t{1} << 32; r += 8191) words.push_back(static_cast<std::uint32_t>(r));
    std::mt19937 rng(1);
    for (int i = 0; i < 1 << 18; ++i) words.push_back(static_cast<std::uint32_t>(rng() >> rng() % 24));
    return words;
  }
  cpu::DenormalsOff denormals_off_;
};

TEST_F(NoiseBound, IsNeverBelowTheNoise) {
  int wrong = 0;
  for (const std::uint32_t r : words()) {
    const float noise = reference::gumbel(r);
    if (noise_at_most(r) >= noise + 0.0008f && kMostNoise >= noise) continue;
    ADD_FAILURE() << "r " << r << ": noise " << noise << ", bound " << noise_at_most(r);
    if (++wrong == 5) return;
  }
}

TEST_F(NoiseBound, IsCloseToLargeNoise) {
  int wrong = 0;
  for (const std::uint32_t r : words()) {
    if (r == 0 || r >= 1u << 24) continue;
    const float noise = reference::gumbel(r);
    // For r = 1 and the like, r + 0.5 is not close to r.
    if (noise_at_most(r) <= noise + 0.0625f + 0.5f / static_cast<float>(r)) continue;
    ADD_FAILURE() << "r " << r << ": noise " << noise << ", bound " << noise_at_most(r);
    if (++wrong == 5) return;
  }
}

// The argument of draw_row.cuh: a sum rounds monotonically, however far apart floats are.
TEST_F(NoiseBound, OfAScoreIsNeverBelowTheScore) {
  std::mt19937 rng(2);
  for (int i = 0; i < 300000; ++i) {
    const float x = cpu::draw(rng, cpu::kAllValues[i % 5]);
    if (!(x > -std::numeric_limits<float>::infinity())) continue;
    const auto r = static_cast<std::uint32_t>(rng() >> rng() % 24);
    const float score = x + reference::gumbel(r) + 0.0f;
    ASSERT_GE(x + noise_at_most(r), score) << x << " " << r;
    ASSERT_GE(x + kMostNoise, score) << x << " " << r;
  }
}

}  // namespace
}  // namespace mortise::cuda
