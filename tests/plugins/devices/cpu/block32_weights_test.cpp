// Weights for activations in blocks of 32 through the device: the reference's bits, whether made from float parts or
// handed in quantised.
// Covers: plugins/devices/cpu/int_weights plugins/devices/cpu/linear
#include "quantized_sources.hpp"

namespace mortise::cpu {
namespace {

class Block32Weights : public OnEachDevice {
 protected:
  std::vector<float> product(const mortise_weight* weight, const std::vector<float>& x, std::size_t m, std::size_t n,
                             std::size_t k, int32_t gate = 0) {
    const std::size_t columns = gate == 0 ? n : n / 2;
    std::vector<float> y(m * columns);
    const mortise_tensor in = matrix(x, m, k), out = matrix(y, m, columns);
    auto args = sized<mortise_linear_args>();
    args.x = &in;
    args.weight = weight;
    args.out = &out;
    args.gate_activation = gate;
    expect_ok(table().linear(device_.get(), nullptr, &args, &device_.error));
    return y;
  }
};

TEST_P(Block32Weights, FloatPartsAreQuantizedAsTheReferenceDoes) {
  std::mt19937 rng(1);
  for (const int bits : {4, 8}) {
    for (const std::size_t m : {1, 7, 40}) {
      const std::size_t n = 140, k = 200;
      const auto a = random_values<Bf16>(rng, 37 * k);
      const auto b = random_values<float>(rng, (n - 37) * k);
      std::vector<float> w;
      for (const Bf16 value : a) w.push_back(bf16_to_float(value));
      w.insert(w.end(), b.begin(), b.end());
      const mortise_tensor parts[] = {matrix(a, 37, k), matrix(b, n - 37, k)};
      const mortise_tensor* pointers[] = {&parts[0], &parts[1]};
      mortise_weight_source source = block32_source_of(MORTISE_F32, bits, 32, 2);
      source.parts = pointers;
      mortise_weight* weight = nullptr;
      expect_ok(prepare(device_, source, &weight));
      const DenormalsOff off;
      const auto reference = reference::quantize_weights_block32(w, n, k, bits);
      const auto x = random_values<float>(rng, m * k);
      std::vector<float> y(m * n);
      reference::linear_block32(x.data(), reference, nullptr, y.data(), m);
      EXPECT_TRUE(same_bits(y, product(weight, x, m, n, k))) << bits << " bits, m " << m;
      std::vector<float> gated(m * n / 2);
      const mortise_tensor both = matrix(y, m, n), half = matrix(gated, m, n / 2);
      expect_ok(table().gated_activation(device_.get(), nullptr, MORTISE_ACT_SILU, &both, &half, &device_.error));
      EXPECT_TRUE(same_bits(gated, product(weight, x, m, n, k, MORTISE_ACT_SILU))) << bits << " bits, m " << m;
      table().free_weight(device_.get(), weight);
    }
  }
}

TEST_P(Block32Weights, QuantizedPartsAreMultipliedAsTheyCome) {
  std::mt19937 rng(2);
  for (const bool has_minima : {false, true}) {
    for (const bool f16 : {false, true}) {
      for (const auto& [bits, group] : {std::pair<int, std::size_t>(4, 32), {8, 32}, {8, 16}, {4, 64}, {8, 256}}) {
        const std::size_t k = 256, m = 9;
        Block32Source a(rng, 70, k, bits, group, has_minima), b(rng, 13, k, bits, group, has_minima);
        if (!f16) {
          for (Block32Source* part : {&a, &b}) {
            part->matrix.flags &= ~static_cast<std::uint32_t>(MORTISE_QUANTIZED_F16_SCALES);
            for (float& scale : part->weight.scales) scale *= 1.001f;
          }
        }
        const mortise_quantized_matrix* parts[] = {&a.matrix, &b.matrix};
        mortise_weight_source source = block32_source_of(MORTISE_F32, bits, group, 2);
        source.quantized = parts;
        mortise_weight* weight = nullptr;
        expect_ok(prepare(device_, source, &weight));
        const auto x = random_values<float>(rng, m * k);
        std::vector<float> ya(m * 70), yb(m * 13), y;
        const DenormalsOff off;
        reference::linear_block32(x.data(), a.weight, nullptr, ya.data(), m);
        reference::linear_block32(x.data(), b.weight, nullptr, yb.data(), m);
        for (std::size_t i = 0; i < m; ++i) {
          y.insert(y.end(), &ya[i * 70], &ya[i * 70] + 70);
          y.insert(y.end(), &yb[i * 13], &yb[i * 13] + 13);
        }
        EXPECT_TRUE(same_bits(y, product(weight, x, m, 83, k))) << bits << " bits, groups of " << group;
        table().free_weight(device_.get(), weight);
      }
    }
  }
}
MORTISE_ON_EACH_DEVICE(Block32Weights);

}  // namespace
}  // namespace mortise::cpu
