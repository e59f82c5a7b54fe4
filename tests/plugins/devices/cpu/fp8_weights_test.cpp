// E4M3 weights through the device: the reference's bits, whether made from float parts or handed in.
#include "quantized_sources.hpp"

namespace mortise::cpu {
namespace {

class Fp8Weights : public OnEachDevice {
 protected:
  template <class X>
  std::vector<float> product(const mortise_weight* weight, const std::vector<X>& x, std::size_t m, std::size_t n,
                             std::size_t k) {
    std::vector<float> y(m * n);
    const mortise_tensor in = matrix(x, m, k), out = matrix(y, m, n);
    auto args = sized<mortise_linear_args>();
    args.x = &in;
    args.weight = weight;
    args.out = &out;
    expect_ok(table().linear(device_.get(), nullptr, &args, &device_.error));
    return y;
  }
};

TEST_P(Fp8Weights, FloatPartsAreRoundedAsTheReferenceRounds) {
  std::mt19937 rng(1);
  for (const std::size_t m : {1, 7, 40}) {
    const std::size_t n = 140, k = 200;
    const auto a = random_values<Bf16>(rng, 37 * k);
    const auto b = random_values<float>(rng, (n - 37) * k);
    std::vector<float> w;
    for (const Bf16 value : a) w.push_back(bf16_to_float(value));
    w.insert(w.end(), b.begin(), b.end());
    const mortise_tensor parts[] = {matrix(a, 37, k), matrix(b, n - 37, k)};
    const mortise_tensor* pointers[] = {&parts[0], &parts[1]};
    mortise_weight_source source = fp8_source_of(MORTISE_F32, 0, 2);
    source.parts = pointers;
    mortise_weight* weight = nullptr;
    expect_ok(prepare(device_, source, &weight));
    const DenormalsOff off;
    const auto x = random_values<float>(rng, m * k);
    std::vector<float> y(m * n);
    reference::linear_fp8(x.data(), reference::quantize_fp8(w, n, k), nullptr, y.data(), m);
    EXPECT_TRUE(same_bits(y, product(weight, x, m, n, k))) << "m " << m;
    table().free_weight(device_.get(), weight);
  }
}

TEST_P(Fp8Weights, PartsOfACheckpointAreMultipliedAsTheyCome) {
  std::mt19937 rng(2);
  for (const std::size_t group : {std::size_t{128}, std::size_t{300}}) {
    const std::size_t k = 300, m = 9;
    const Fp8Source a(rng, 70, k, group), b(rng, 13, k, group);
    const mortise_quantized_matrix* parts[] = {&a.matrix, &b.matrix};
    mortise_weight_source source = fp8_source_of(MORTISE_BF16, group, 2);
    source.quantized = parts;
    mortise_weight* weight = nullptr;
    expect_ok(prepare(device_, source, &weight));
    const auto x = random_values<Bf16>(rng, m * k);
    std::vector<float> ya(m * 70), yb(m * 13), y;
    const DenormalsOff off;
    reference::linear_fp8(x.data(), a.weight, nullptr, ya.data(), m);
    reference::linear_fp8(x.data(), b.weight, nullptr, yb.data(), m);
    for (std::size_t i = 0; i < m; ++i) {
      y.insert(y.end(), &ya[i * 70], &ya[i * 70] + 70);
      y.insert(y.end(), &yb[i * 13], &yb[i * 13] + 13);
    }
    EXPECT_TRUE(same_bits(y, product(weight, x, m, 83, k))) << "groups of " << group;
    // Gated: the product in x's type, then its activation.
    std::vector<Bf16> both(m * 83), gated(m * 35), twice(m * 35);
    table().free_weight(device_.get(), weight);
    const mortise_quantized_matrix* one[] = {&a.matrix};
    source = fp8_source_of(MORTISE_BF16, group, 1);
    source.quantized = one;
    expect_ok(prepare(device_, source, &weight));
    both.resize(m * 70);
    const mortise_tensor in = matrix(x, m, k), whole = matrix(both, m, 70), half = matrix(twice, m, 35),
                         at_once = matrix(gated, m, 35);
    auto args = sized<mortise_linear_args>();
    args.x = &in;
    args.weight = weight;
    args.out = &whole;
    expect_ok(table().linear(device_.get(), nullptr, &args, &device_.error));
    expect_ok(table().gated_activation(device_.get(), nullptr, MORTISE_ACT_SILU, &whole, &half, &device_.error));
    args.out = &at_once;
    args.gate_activation = MORTISE_ACT_SILU;
    expect_ok(table().linear(device_.get(), nullptr, &args, &device_.error));
    EXPECT_TRUE(same_bits(twice, gated)) << "groups of " << group;
    table().free_weight(device_.get(), weight);
  }
}
MORTISE_ON_EACH_DEVICE(Fp8Weights);

}  // namespace
}  // namespace mortise::cpu
