// Quantised weights that a device refuses, through the CPU device: bits, groups, uses, orders, NaN.
#include "devices/checks/quantized.hpp"

#include <limits>

#include "quantized_sources.hpp"

namespace mortise::cpu {
namespace {

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
  EXPECT_EQ(prepare_float(MORTISE_WEIGHT_LINEAR, 4, 1000, 100),
            MORTISE_OK);  // a group that is longer than a row is a row
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

class MistakesInFp8Weights : public OneDevice {};

TEST_F(MistakesInFp8Weights, NanOtherGroupsAndOrdersAreRefused) {
  std::mt19937 rng(3);
  Fp8Source a(rng, 100, 256, 128);
  const mortise_quantized_matrix* part[] = {&a.matrix};
  mortise_weight_source source = fp8_source_of(MORTISE_BF16, 128, 1);
  source.quantized = part;
  mortise_weight* weight = nullptr;
  a.weight.values[77 * 256 + 5] = 0x7f;
  expect_invalid(prepare(device_, source, &weight), "the value at row 77, column 5 is NaN");
  a.weight.values[77 * 256 + 5] = 0x7e;
  std::vector<std::int32_t> order(256);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  a.matrix.order = order.data();
  expect_invalid(prepare(device_, source, &weight), "an order of E4M3 values");
  a.matrix.order = nullptr;
  a.matrix.group_size = source.group_size = 64;
  expect_invalid(prepare(device_, source, &weight), "8 bits of E4M3 in groups of 64; expected 8 bits in groups of 128");
  a.matrix.group_size = source.group_size = 128;
  source.value_type = 0;
  expect_invalid(prepare(device_, source, &weight), "quantised part 0 (8 bits of E4M3 in groups of 128) does not fit");
  source.value_type = MORTISE_F32;
  expect_invalid(prepare(device_, source, &weight), "does not fit");
}

class MistakesInBlock32Weights : public OneDevice {};

TEST_F(MistakesInBlock32Weights, OtherGroupsZeroPointsFlagsOrdersAndScalesAreRefused) {
  std::mt19937 rng(3);
  Block32Source a(rng, 40, 128, 4, 32, true), b(rng, 40, 128, 4, 32, true);
  const mortise_quantized_matrix* parts[] = {&a.matrix, &b.matrix};
  mortise_weight_source source = block32_source_of(MORTISE_F32, 4, 32, 2);
  source.quantized = parts;
  mortise_weight* weight = nullptr;
  b.matrix.zero = 8;
  expect_invalid(prepare(device_, source, &weight), "quantised part 1 has another zero point than part 0");
  a.matrix.zero = b.matrix.zero = 256;
  expect_invalid(prepare(device_, source, &weight), "zero point 256 and flags 3; expected 0 to 255");
  a.matrix.zero = b.matrix.zero = 0;
  b.matrix.flags = 0;
  expect_invalid(prepare(device_, source, &weight),
                 "quantised part 1 has another zero point than part 0, or other flags");
  a.matrix.flags = b.matrix.flags = 8;
  expect_invalid(prepare(device_, source, &weight), "flags 8; expected");
  a.matrix.flags = b.matrix.flags = MORTISE_QUANTIZED_F16_SCALES | MORTISE_QUANTIZED_MINIMA;
  b.weight.minima[7] = 1.0f + 0x1p-20f;
  expect_invalid(prepare(device_, source, &weight), "is not exact in f16; leave out the flag");
  b.weight.minima[7] = 1.0f;
  std::vector<std::int32_t> order(128);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  a.matrix.order = b.matrix.order = order.data();
  expect_invalid(prepare(device_, source, &weight), "an order of I8_BLOCK32 values");
  a.matrix.order = b.matrix.order = nullptr;
  a.matrix.group_size = b.matrix.group_size = source.group_size = 48;
  expect_invalid(prepare(device_, source, &weight), "4 bits for blocks of 32 in groups of 48; expected 4 or 8 bits");
}

TEST_F(MistakesInBlock32Weights, FloatPartsInOtherGroupsAreRefused) {
  const std::vector<float> w(2 * 128, 1.0f);
  const mortise_tensor part = matrix(w, 2, 128);
  const mortise_tensor* pointer = &part;
  mortise_weight_source source = block32_source_of(MORTISE_F32, 8, 64, 1);
  source.parts = &pointer;
  mortise_weight* weight = nullptr;
  expect_invalid(prepare(device_, source, &weight), "8 bits for blocks of 32 in groups of 64; expected 4 or 8 bits");
}

class MistakesInMxfp4Weights : public OneDevice {};

TEST_F(MistakesInMxfp4Weights, ScalesThatAreNoPowersOfTwoAndOtherGroupsAreRefused) {
  std::mt19937 rng(3);
  Mxfp4Source a(rng, 100, 160);
  const mortise_quantized_matrix* part[] = {&a.matrix};
  mortise_weight_source source = mxfp4_source_of(MORTISE_BF16, 1);
  source.quantized = part;
  mortise_weight* weight = nullptr;
  const float right = a.scales[77 * 5 + 2];
  for (const float wrong : {0x1p126f, 3.0f, 0.0f, -1.0f, 0x1p-128f, std::numeric_limits<float>::infinity()}) {
    a.scales[77 * 5 + 2] = wrong;
    expect_invalid(
        prepare(device_, source, &weight),
        "row 77, columns from 64: the scale of MXFP4 is no power of two from 2^-127 to 2^125, so its weights "
        "are not exact in bf16; use the checkpoint that it was made from");
  }
  a.scales[77 * 5 + 2] = std::numeric_limits<float>::quiet_NaN();
  expect_invalid(prepare(device_, source, &weight),
                 "row 77, columns from 64: the scale of MXFP4 is NaN; the checkpoint");
  a.scales[77 * 5 + 2] = right;
  std::vector<std::int32_t> order(160);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  a.matrix.order = order.data();
  expect_invalid(prepare(device_, source, &weight), "an order of E2M1 values");
  a.matrix.order = nullptr;
  a.matrix.group_size = source.group_size = 64;
  expect_invalid(prepare(device_, source, &weight), "4 bits of E2M1 in groups of 64; expected 4 bits in groups of 32");
}

TEST_F(MistakesInMxfp4Weights, FloatsThatAreNotNumbersAreRefused) {
  std::vector<float> w(90 * 64, 1.0f);
  const mortise_tensor tensor = matrix(w, 90, 64);
  const mortise_tensor* part = &tensor;
  mortise_weight_source source = mxfp4_source_of(MORTISE_F32, 1);
  source.parts = &part;
  mortise_weight* weight = nullptr;
  w[70 * 64 + 63] = std::numeric_limits<float>::infinity();
  expect_invalid(prepare(device_, source, &weight),
                 "row 70 has a weight that is NaN or infinite, which MXFP4 does not hold; leave `weights` out");
}

}  // namespace
}  // namespace mortise::cpu
