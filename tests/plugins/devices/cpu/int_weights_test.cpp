// Quantised weights through the device: the reference's bits, whether made from float parts or handed in quantised.
// Covers: plugins/devices/checks/{quantized,weight} plugins/devices/cpu/source_rows
#include "device_fixture.hpp"
#include "kernels/cpu/reference/linear_int.hpp"

namespace mortise::cpu {
namespace {

// A quantised matrix as a checkpoint would hand it in.
struct Source {
  reference::IntWeight weight;
  mortise_quantized_matrix matrix = sized<mortise_quantized_matrix>();

  Source(std::mt19937& rng, std::size_t n, std::size_t k, int bits, std::size_t group, bool with_order) {
    weight = reference::quantize_weights(random_values<float>(rng, n * k), n, k, bits, group);
    for (auto& zero : weight.zeros) zero = static_cast<std::uint8_t>(rng() % (1u << bits));
    if (with_order) {
      for (std::size_t j = 0; j < k; ++j) weight.order.push_back(static_cast<std::int32_t>((j * 7 + 3) % k));
      matrix.order = weight.order.data();
    }
    matrix.n = static_cast<int64_t>(n);
    matrix.k = static_cast<int64_t>(k);
    matrix.bits = bits;
    matrix.group_size = static_cast<int32_t>(group);
    matrix.context = this;
    matrix.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t* zeros) {
      const reference::IntWeight& w = static_cast<const Source*>(context)->weight;
      const auto groups = static_cast<int64_t>(w.scales.size() / w.n), columns = static_cast<int64_t>(w.k);
      std::copy(&w.values[0] + n0 * columns, &w.values[0] + n1 * columns, values);
      std::copy(&w.scales[0] + n0 * groups, &w.scales[0] + n1 * groups, scales);
      std::copy(&w.zeros[0] + n0 * groups, &w.zeros[0] + n1 * groups, zeros);
    };
  }
  Source(const Source&) = delete;
};

mortise_status prepare(Device& device, mortise_weight_source source, mortise_weight** weight) {
  return device.table().prepare_weight(device.get(), &source, weight, &device.error);
}

mortise_weight_source source_of(int32_t dtype, int bits, std::size_t group, std::size_t parts) {
  auto source = sized<mortise_weight_source>();
  source.use = MORTISE_WEIGHT_LINEAR;
  source.dtype = dtype;
  source.bits = bits;
  source.group_size = static_cast<int32_t>(group);
  source.num_parts = static_cast<int32_t>(parts);
  return source;
}

class IntWeights : public OnEachDevice {
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

TEST_P(IntWeights, FloatPartsAreQuantizedAsTheReferenceDoes) {
  std::mt19937 rng(1);
  for (const auto& [bits, group] : {std::pair<int, std::size_t>(8, 0), {4, 32}, {4, 64}, {8, 128}}) {
    for (const std::size_t m : {1, 7, 40}) {
      const std::size_t n = 140, k = 200;
      const auto a = random_values<Bf16>(rng, 37 * k);
      const auto b = random_values<float>(rng, (n - 37) * k);
      std::vector<float> w;
      for (const Bf16 value : a) w.push_back(bf16_to_float(value));
      w.insert(w.end(), b.begin(), b.end());
      const mortise_tensor parts[] = {matrix(a, 37, k), matrix(b, n - 37, k)};
      const mortise_tensor* pointers[] = {&parts[0], &parts[1]};
      mortise_weight_source source = source_of(MORTISE_F32, bits, group, 2);
      source.parts = pointers;
      mortise_weight* weight = nullptr;
      expect_ok(prepare(device_, source, &weight));
      const DenormalsOff off;
      const auto reference = reference::quantize_weights(w, n, k, bits, group == 0 ? k : group);
      const auto x = random_values<float>(rng, m * k);
      std::vector<float> y(m * n);
      reference::linear_int(x.data(), reference, nullptr, y.data(), m);
      EXPECT_TRUE(same_bits(y, product(weight, x, m, n, k))) << bits << " bits, m " << m;
      std::vector<float> gated(m * n / 2);
      const mortise_tensor both = matrix(y, m, n), half = matrix(gated, m, n / 2);
      expect_ok(table().gated_activation(device_.get(), nullptr, MORTISE_ACT_SILU, &both, &half, &device_.error));
      EXPECT_TRUE(same_bits(gated, product(weight, x, m, n, k, MORTISE_ACT_SILU))) << bits << " bits, m " << m;
      table().free_weight(device_.get(), weight);
    }
  }
}

TEST_P(IntWeights, QuantizedPartsAreMultipliedAsTheyCome) {
  std::mt19937 rng(2);
  for (const bool with_order : {false, true}) {
    for (const int bits : {4, 8}) {
      const std::size_t k = 256, m = 9;
      const Source a(rng, 70, k, bits, 64, with_order), b(rng, 13, k, bits, 64, with_order);
      const mortise_quantized_matrix* parts[] = {&a.matrix, &b.matrix};
      mortise_weight_source source = source_of(MORTISE_F32, bits, 64, 2);
      source.quantized = parts;
      mortise_weight* weight = nullptr;
      expect_ok(prepare(device_, source, &weight));
      const auto x = random_values<float>(rng, m * k);
      std::vector<float> ya(m * 70), yb(m * 13), y;
      const DenormalsOff off;
      reference::linear_int(x.data(), a.weight, nullptr, ya.data(), m);
      reference::linear_int(x.data(), b.weight, nullptr, yb.data(), m);
      for (std::size_t i = 0; i < m; ++i) {
        y.insert(y.end(), &ya[i * 70], &ya[i * 70] + 70);
        y.insert(y.end(), &yb[i * 13], &yb[i * 13] + 13);
      }
      EXPECT_TRUE(same_bits(y, product(weight, x, m, 83, k))) << bits << " bits, order " << with_order;
      table().free_weight(device_.get(), weight);
    }
  }
}
MORTISE_ON_EACH_DEVICE(IntWeights);

class MistakesInIntWeights : public OneDevice {
 protected:
  mortise_status prepare_float(int32_t use, int bits, int32_t group, std::size_t k) {
    const std::vector<float> w(2 * k, 1.0f);
    const mortise_tensor part = matrix(w, 2, k);
    const mortise_tensor* pointer = &part;
    mortise_weight_source source = source_of(MORTISE_F32, bits, 0, 1);
    source.use = use;
    source.group_size = group;
    source.parts = &pointer;
    mortise_weight* weight = nullptr;
    const mortise_status status = prepare(device_, source, &weight);
    if (status == MORTISE_OK) table().free_weight(device_.get(), weight);
    return status;
  }
};

TEST_F(MistakesInIntWeights, OtherBitsGroupsAndUsesAreRefused) {
  EXPECT_EQ(prepare_float(MORTISE_WEIGHT_LINEAR, 8, 0, 100), MORTISE_OK);
  EXPECT_EQ(prepare_float(MORTISE_WEIGHT_LINEAR, 4, 1000, 100), MORTISE_OK);  // longer than a row: a row
  expect_invalid(prepare_float(MORTISE_WEIGHT_LINEAR, 3, 0, 100), "3 bits in groups of 0; expected 4 or 8 bits");
  expect_invalid(prepare_float(MORTISE_WEIGHT_LINEAR, 4, 48, 100), "4 bits in groups of 48; expected 4 or 8 bits");
  expect_invalid(prepare_float(MORTISE_WEIGHT_LINEAR, 4, -1, 100), "4 bits in groups of -1; expected 4 or 8 bits");
  expect_invalid(prepare_float(MORTISE_WEIGHT_LINEAR | MORTISE_WEIGHT_EMBEDDING, 8, 0, 100), "expected linear");
  expect_invalid(prepare_float(MORTISE_WEIGHT_LINEAR, 8, 0, 40000), "at most 32768 sum without overflow");
}

TEST_F(MistakesInIntWeights, PartsThatAreQuantizedDifferentlyAreRefused) {
  std::mt19937 rng(3);
  const Source a(rng, 8, 128, 4, 32, false), b(rng, 8, 128, 4, 64, false), c(rng, 8, 128, 4, 32, true);
  for (const Source* other : {&b, &c}) {
    const mortise_quantized_matrix* parts[] = {&a.matrix, &other->matrix};
    mortise_weight_source source = source_of(MORTISE_F32, 4, 32, 2);
    source.quantized = parts;
    mortise_weight* weight = nullptr;
    expect_invalid(prepare(device_, source, &weight), "quantised part 1");
  }
}

TEST_F(MistakesInIntWeights, AnOrderThatIsNoPermutationIsRefused) {
  std::mt19937 rng(4);
  Source a(rng, 8, 128, 4, 32, true);
  a.weight.order[5] = a.weight.order[4];
  const mortise_quantized_matrix* part = &a.matrix;
  mortise_weight_source source = source_of(MORTISE_F32, 4, 32, 1);
  source.quantized = &part;
  mortise_weight* weight = nullptr;
  expect_invalid(prepare(device_, source, &weight), "order[5] is");
}

}  // namespace
}  // namespace mortise::cpu
