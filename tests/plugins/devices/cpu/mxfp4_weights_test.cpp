// MXFP4 weights through the device: the bits of the device's own products of the widened weights, in bf16 and f32,
// whether handed in by a checkpoint or made from floats.
#include "quantized_sources.hpp"

namespace mortise::cpu {
namespace {

class Mxfp4Weights : public OnEachDevice {
 protected:
  template <class Y, class X>
  std::vector<Y> product(const mortise_weight* weight, const std::vector<X>& x, std::size_t m, std::size_t n,
                         std::size_t k, int32_t gate = 0) {
    std::vector<Y> y(m * n);
    const mortise_tensor in = matrix(x, m, k), out = matrix(y, m, n);
    auto args = sized<mortise_linear_args>();
    args.x = &in;
    args.weight = weight;
    args.out = &out;
    args.gate_activation = gate;
    expect_ok(table().linear(device_.get(), nullptr, &args, &device_.error));
    return y;
  }
  // The weight as a checkpoint in bf16 would have it.
  mortise_weight* plain(const std::vector<Bf16>& w, std::size_t n, std::size_t k, int32_t dtype) {
    const mortise_tensor tensor = matrix(w, n, k);
    const mortise_tensor* part = &tensor;
    auto source = sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR;
    source.dtype = dtype;
    source.num_parts = 1;
    source.parts = &part;
    mortise_weight* weight = nullptr;
    expect_ok(prepare(device_, source, &weight));
    return weight;
  }
};

TEST_P(Mxfp4Weights, PartsOfACheckpointHaveTheBitsOfTheWidenedCheckpoint) {
  std::mt19937 rng(2);
  const std::size_t k = 288;
  for (const bool all : {false, true}) {  // all exponents: also those of denormals, and of the largest numbers
    const unsigned low = all ? 0 : 116, high = all ? 252 : 123;
    const Mxfp4Source a(rng, 70, k, low, high), b(rng, 14, k, low, high);
    const mortise_quantized_matrix* parts[] = {&a.matrix, &b.matrix};
    std::vector<Bf16> w = widen_mxfp4(a.weight);
    const std::vector<Bf16> more = widen_mxfp4(b.weight);
    w.insert(w.end(), more.begin(), more.end());
    for (const int32_t dtype : {MORTISE_BF16, MORTISE_F32}) {
      mortise_weight_source source = mxfp4_source_of(dtype, 2);
      source.quantized = parts;
      mortise_weight *weight = nullptr, *widened = plain(w, 84, k, dtype);
      expect_ok(prepare(device_, source, &weight));
      for (const std::size_t m : {1, 5, 17, 40, 130}) {
        if (dtype == MORTISE_BF16) {
          const auto x = random_values<Bf16>(rng, m * k);
          EXPECT_TRUE(same_bits(product<float>(widened, x, m, 84, k), product<float>(weight, x, m, 84, k))) << m;
          EXPECT_TRUE(same_bits(product<Bf16>(widened, x, m, 84, k), product<Bf16>(weight, x, m, 84, k))) << m;
          EXPECT_TRUE(same_bits(product<Bf16>(widened, x, m, 42, k, MORTISE_ACT_SILU),
                                product<Bf16>(weight, x, m, 42, k, MORTISE_ACT_SILU)))
              << m;
        } else {
          const auto x = random_values<float>(rng, m * k);
          EXPECT_TRUE(same_bits(product<float>(widened, x, m, 84, k), product<float>(weight, x, m, 84, k))) << m;
        }
      }
      table().free_weight(device_.get(), weight);
      table().free_weight(device_.get(), widened);
    }
  }
}

TEST_P(Mxfp4Weights, FloatPartsAreRoundedAsTheReferenceRounds) {
  std::mt19937 rng(1);
  for (const std::size_t k : {std::size_t{200}, std::size_t{20}}) {  // groups that end within a row, and beyond it
    const std::size_t n = 140, m = 7;
    const auto a = random_values<Bf16>(rng, 37 * k);
    const auto b = random_values<float>(rng, (n - 37) * k);
    std::vector<float> w;
    for (const Bf16 value : a) w.push_back(bf16_to_float(value));
    w.insert(w.end(), b.begin(), b.end());
    const mortise_tensor parts[] = {matrix(a, 37, k), matrix(b, n - 37, k)};
    const mortise_tensor* pointers[] = {&parts[0], &parts[1]};
    mortise_weight_source source = mxfp4_source_of(MORTISE_BF16, 2);
    source.parts = pointers;
    mortise_weight *weight = nullptr,
                   *widened = plain(widen_mxfp4(reference::quantize_mxfp4(w, n, k)), n, k, MORTISE_BF16);
    expect_ok(prepare(device_, source, &weight));
    const auto x = random_values<Bf16>(rng, m * k);
    EXPECT_TRUE(same_bits(product<float>(widened, x, m, n, k), product<float>(weight, x, m, n, k))) << "k " << k;
    table().free_weight(device_.get(), weight);
    table().free_weight(device_.get(), widened);
  }
}
MORTISE_ON_EACH_DEVICE(Mxfp4Weights);

}  // namespace
}  // namespace mortise::cpu
