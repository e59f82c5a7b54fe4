// Preparing weights: parts, strides and types, seen through embed (rows come back) and linear.
// Covers: plugins/devices/cpu/source_rows
#include <algorithm>

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

class Weights : public OnEachDevice {
 protected:
  // Rows 0 .. n-1 of an embedding.
  template <typename T>
  std::vector<T> rows_of(const Weight& weight, std::size_t n, std::size_t k) {
    std::vector<std::int32_t> ids(n);
    for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::int32_t>(n - 1 - i);
    std::vector<T> reversed(n * k), rows(n * k);
    const mortise_tensor out = matrix(reversed, n, k);
    expect_ok(table().embed(device_.get(), nullptr, ids.data(), weight.get(), &out, &device_.error));
    for (std::size_t i = 0; i < n; ++i) std::copy_n(&reversed[i * k], k, &rows[(n - 1 - i) * k]);
    return rows;
  }
};

constexpr int32_t kUses[] = {MORTISE_WEIGHT_EMBEDDING, MORTISE_WEIGHT_EMBEDDING | MORTISE_WEIGHT_LINEAR};

TEST_P(Weights, RowsComeBackFromAnyNumberOfParts) {
  std::mt19937 rng(1);
  const std::size_t k = 50;
  for (const std::vector<std::size_t>& sizes :
       {std::vector<std::size_t>{100}, {16, 32}, {5, 1, 30}, {20, 20, 20}, {1}, {3, 17, 300}}) {
    std::vector<std::vector<Bf16>> data;
    std::vector<mortise_tensor> parts;
    std::vector<Bf16> all;
    for (const std::size_t n : sizes) {
      data.push_back(random_values<Bf16>(rng, n * k));
      parts.push_back(matrix(data.back(), n, k));
      all.insert(all.end(), data.back().begin(), data.back().end());
    }
    for (const int32_t use : kUses) {
      const Weight weight(device_, use, MORTISE_BF16, parts);
      expect_ok(weight.status);
      EXPECT_TRUE(same_bits(all, rows_of<Bf16>(weight, all.size() / k, k)));
    }
  }
}

TEST_P(Weights, AShardIsAViewOfRowsOrColumns) {
  std::mt19937 rng(2);
  const std::size_t n = 40, k = 96;
  const std::vector<float> full = random_values<float>(rng, 2 * n * 2 * k);
  mortise_tensor shard = matrix(full, n, k, 2 * k);  // the columns k .. 2k of the rows n .. 2n
  shard.data = const_cast<float*>(full.data()) + n * 2 * k + k;
  shard.bytes = (full.size() - n * 2 * k - k) * sizeof(float);
  std::vector<float> expected;
  for (std::size_t i = 0; i < n; ++i) {
    expected.insert(expected.end(), &full[(n + i) * 2 * k + k], &full[(n + i) * 2 * k + k] + k);
  }
  for (const int32_t use : kUses) {
    const Weight weight(device_, use, MORTISE_F32, {shard});
    expect_ok(weight.status);
    EXPECT_TRUE(same_bits(expected, rows_of<float>(weight, n, k)));
  }
}

TEST_P(Weights, ATransposedMatrixIsReadByItsStrides) {
  std::mt19937 rng(3);
  const std::size_t n = 37, k = 21;
  const std::vector<Bf16> transposed = random_values<Bf16>(rng, n * k);  // [k, n]
  mortise_tensor part = matrix(transposed, n, k);
  part.stride[0] = 1;
  part.stride[1] = static_cast<int64_t>(n);
  std::vector<Bf16> expected(n * k);
  std::vector<float> expected_wide(n * k);
  for (std::size_t i = 0; i < n * k; ++i) {
    expected[i] = transposed[i % k * n + i / k];
    expected_wide[i] = bf16_to_float(expected[i]);
  }
  for (const int32_t use : kUses) {
    const Weight weight(device_, use, MORTISE_BF16, {part}), wide(device_, use, MORTISE_F32, {part});
    EXPECT_TRUE(same_bits(expected, rows_of<Bf16>(weight, n, k)));
    EXPECT_TRUE(same_bits(expected_wide, rows_of<float>(wide, n, k)));
  }
}

TEST_P(Weights, EveryTypeOfAFileBecomesTheModelsType) {
  const std::size_t n = 33, k = 40;
  std::vector<std::uint16_t> f16(n * k);
  for (std::size_t i = 0; i < f16.size(); ++i) f16[i] = static_cast<std::uint16_t>(0x2c00 + i);  // 0.0625 and up
  std::vector<float> f32(n * k);
  for (std::size_t i = 0; i < f16.size(); ++i) {
    f32[i] = std::ldexp(static_cast<float>((f16[i] & 0x3ff) | 0x400), ((f16[i] >> 10) & 0x1f) - 25);
  }
  std::vector<Bf16> bf16(n * k);
  std::transform(f32.begin(), f32.end(), bf16.begin(), float_to_bf16);
  std::vector<float> rounded(n * k);
  std::transform(bf16.begin(), bf16.end(), rounded.begin(), bf16_to_float);

  const mortise_tensor from_f16 = with_dtype(matrix(f16, n, k), MORTISE_F16);
  for (const int32_t use : kUses) {
    for (const mortise_tensor& part : {from_f16, matrix(f32, n, k)}) {
      const Weight narrow(device_, use, MORTISE_BF16, {part}), wide(device_, use, MORTISE_F32, {part});
      EXPECT_TRUE(same_bits(bf16, rows_of<Bf16>(narrow, n, k)));
      EXPECT_TRUE(same_bits(f32, rows_of<float>(wide, n, k)));
    }
    const Weight wide(device_, use, MORTISE_F32, {matrix(bf16, n, k)});
    EXPECT_TRUE(same_bits(rounded, rows_of<float>(wide, n, k)));
    const Weight mixed(device_, use, MORTISE_F32, {from_f16, matrix(f32, n, k), matrix(bf16, n, k)});
    std::vector<float> expected = f32;
    expected.insert(expected.end(), f32.begin(), f32.end());
    expected.insert(expected.end(), rounded.begin(), rounded.end());
    EXPECT_TRUE(same_bits(expected, rows_of<float>(mixed, 3 * n, k)));
  }
}

TEST_P(Weights, VectorsAreHandedOutInTheModelsType) {
  const std::vector<float> a = {1.0f, 1.00390625f, -3.0f}, b = {0.1f};  // the second and the last round in bf16
  int64_t n = 0;
  int32_t dtype = 0;
  const Weight wide(device_, MORTISE_WEIGHT_VECTOR, MORTISE_F32, {vector_part(a), vector_part(b)});
  const auto* values = static_cast<const float*>(table().vector_weight(device_.get(), wide.get(), &n, &dtype));
  ASSERT_EQ(n, 4);
  EXPECT_EQ(dtype, MORTISE_F32);
  EXPECT_TRUE(same_bits(std::vector<float>{1.0f, 1.00390625f, -3.0f, 0.1f}, std::vector<float>(values, values + 4)));
  const Weight narrow(device_, MORTISE_WEIGHT_VECTOR, MORTISE_BF16, {vector_part(a), vector_part(b)});
  const auto* bits = static_cast<const Bf16*>(table().vector_weight(device_.get(), narrow.get(), &n, &dtype));
  EXPECT_EQ(dtype, MORTISE_BF16);
  EXPECT_TRUE(same_bits(std::vector<Bf16>{0x3f80, 0x3f80, 0xc040, 0x3dcd}, std::vector<Bf16>(bits, bits + 4)));
}

MORTISE_ON_EACH_DEVICE(Weights);

using OneDevicesWeights = OneDevice;

TEST_F(OneDevicesWeights, ManyWeightsComeAndGo) {
  std::vector<float> data(1000);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Weight>> weights;
    for (int i = 0; i < 50; ++i) {
      weights.push_back(std::make_unique<Weight>(device_, MORTISE_WEIGHT_LINEAR, MORTISE_F32,
                                                 std::vector<mortise_tensor>{matrix(data, 10, 100)}));
      if (i % 3 == 0) weights.erase(weights.begin());
    }
  }
}

}  // namespace
}  // namespace mortise::cpu
