// E4M3 weights through the device: the reference's bits, whether made from float parts or handed in.
#include "device_fixture.hpp"
#include "kernels/cpu/reference/linear_fp8.hpp"

namespace mortise::cpu {
namespace {

// A quantised matrix as a checkpoint would hand it in.
struct Fp8Source {
  reference::Fp8Weight weight;
  mortise_quantized_matrix matrix = sized<mortise_quantized_matrix>();

  Fp8Source(std::mt19937& rng, std::size_t n, std::size_t k, std::size_t group) {
    weight = {n, k, group, {}, {}};
    for (std::size_t i = 0; i < n * k; ++i) {
      weight.values.push_back(static_cast<std::uint8_t>(rng() % 0x7f | (rng() & 0x80)));
    }
    weight.scales = random_values<float>(rng, n * ((k + group - 1) / group));
    matrix.n = static_cast<int64_t>(n);
    matrix.k = static_cast<int64_t>(k);
    matrix.bits = 8;
    matrix.group_size = static_cast<int32_t>(group);
    matrix.value_type = MORTISE_F8_E4M3;
    matrix.context = this;
    matrix.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t*) {
      const reference::Fp8Weight& w = static_cast<const Fp8Source*>(context)->weight;
      const auto groups = static_cast<int64_t>(w.scales.size() / w.n), columns = static_cast<int64_t>(w.k);
      std::copy(&w.values[0] + n0 * columns, &w.values[0] + n1 * columns, values);
      std::copy(&w.scales[0] + n0 * groups, &w.scales[0] + n1 * groups, scales);
    };
  }
  Fp8Source(const Fp8Source&) = delete;
};

mortise_status prepare_fp8(Device& device, mortise_weight_source source, mortise_weight** weight) {
  return device.table().prepare_weight(device.get(), &source, weight, &device.error);
}

mortise_weight_source fp8_source_of(int32_t dtype, std::size_t group, std::size_t parts) {
  auto source = sized<mortise_weight_source>();
  source.use = MORTISE_WEIGHT_LINEAR;
  source.dtype = dtype;
  source.bits = 8;
  source.value_type = MORTISE_F8_E4M3;
  source.group_size = static_cast<int32_t>(group);
  source.num_parts = static_cast<int32_t>(parts);
  return source;
}

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
    expect_ok(prepare_fp8(device_, source, &weight));
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
    expect_ok(prepare_fp8(device_, source, &weight));
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
    expect_ok(prepare_fp8(device_, source, &weight));
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

class MistakesInFp8Weights : public OneDevice {};

TEST_F(MistakesInFp8Weights, NanOtherGroupsAndOrdersAreRefused) {
  std::mt19937 rng(3);
  Fp8Source a(rng, 100, 256, 128);
  const mortise_quantized_matrix* part[] = {&a.matrix};
  mortise_weight_source source = fp8_source_of(MORTISE_BF16, 128, 1);
  source.quantized = part;
  mortise_weight* weight = nullptr;
  a.weight.values[77 * 256 + 5] = 0x7f;
  expect_invalid(prepare_fp8(device_, source, &weight), "the value at row 77, column 5 is NaN");
  a.weight.values[77 * 256 + 5] = 0x7e;
  std::vector<std::int32_t> order(256);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  a.matrix.order = order.data();
  expect_invalid(prepare_fp8(device_, source, &weight), "an order of E4M3 values");
  a.matrix.order = nullptr;
  a.matrix.group_size = source.group_size = 64;
  expect_invalid(prepare_fp8(device_, source, &weight),
                 "8 bits of E4M3 in groups of 64; expected 8 bits in groups of 128");
  a.matrix.group_size = source.group_size = 128;
  source.value_type = 0;
  expect_invalid(prepare_fp8(device_, source, &weight),
                 "quantised part 0 (8 bits of E4M3 in groups of 128) does not fit");
  source.value_type = MORTISE_F32;
  expect_invalid(prepare_fp8(device_, source, &weight), "does not fit");
}

}  // namespace
}  // namespace mortise::cpu
