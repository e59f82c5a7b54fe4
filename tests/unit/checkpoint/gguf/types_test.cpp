// The numbers of GGUF blocks against the `gguf` package (tests/golden/make_gguf_types.py), to the bit.
// Covers: runtime/checkpoint/half
#include "checkpoint/gguf/types.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/half.hpp"
#include "checkpoint/safetensors.hpp"

namespace mortise::test {
namespace {

const std::filesystem::path kBlockGoldens = std::string(MORTISE_SOURCE_DIR) + "/tests/golden/gguf_types.safetensors";

struct NamedType {
  GgufType type;
  const char* name;
};
constexpr NamedType kServedTypes[] = {
    {GgufType::kF32, "F32"},   {GgufType::kF16, "F16"},   {GgufType::kBf16, "BF16"}, {GgufType::kQ4_0, "Q4_0"},
    {GgufType::kQ4_1, "Q4_1"}, {GgufType::kQ5_0, "Q5_0"}, {GgufType::kQ5_1, "Q5_1"}, {GgufType::kQ8_0, "Q8_0"},
    {GgufType::kQ4_K, "Q4_K"}, {GgufType::kQ5_K, "Q5_K"}, {GgufType::kQ6_K, "Q6_K"}, {GgufType::kIq4_nl, "IQ4_NL"}};

class GgufTypes : public testing::TestWithParam<NamedType> {};
INSTANTIATE_TEST_SUITE_P(All, GgufTypes, testing::ValuesIn(kServedTypes),
                         [](const auto& info) { return info.param.name; });

std::vector<std::uint32_t> bits_of(std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> out(bytes.size() / sizeof(std::uint32_t));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST_P(GgufTypes, BlocksBecomeTheFloatsOfThePackage) {
  const SafetensorsFile goldens(kBlockGoldens);
  const TensorView& blocks = goldens.tensors().at(std::string(GetParam().name) + ".blocks");
  const TensorView& floats = goldens.tensors().at(std::string(GetParam().name) + ".floats");
  std::vector<float> out(floats.bytes.size() / sizeof(float));
  read_gguf_floats(GetParam().type, blocks.bytes, out.data());
  EXPECT_EQ(bits_of(std::as_bytes(std::span(out))), bits_of(floats.bytes));
}

TEST_P(GgufTypes, TheNumberOfTheFormatHasThisName) {
  const auto info = find_gguf_type(static_cast<std::uint32_t>(GetParam().type));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->name, GetParam().name);
  EXPECT_EQ(gguf_type_name(static_cast<std::uint32_t>(GetParam().type)), GetParam().name);
}

// w = scale * (value - zero) + minimum must be the float of the package exactly, so keeping the integers loses nothing.
TEST_P(GgufTypes, KeptIntegersStandForTheSameFloats) {
  const auto integers = kept_integers(GetParam().type);
  const bool floats_in_file = find_gguf_type(static_cast<std::uint32_t>(GetParam().type))->block_elements == 1;
  ASSERT_EQ(integers.has_value(), !floats_in_file);
  if (!integers) return;
  const SafetensorsFile goldens(kBlockGoldens);
  const TensorView& blocks = goldens.tensors().at(std::string(GetParam().name) + ".blocks");
  const TensorView& floats = goldens.tensors().at(std::string(GetParam().name) + ".floats");
  const std::size_t count = floats.bytes.size() / sizeof(float), each = integers->has_minima ? 2 : 1;
  std::vector<std::uint8_t> values(count);
  std::vector<float> factors(integers->factors(count)), out(count);
  read_gguf_integers(GetParam().type, blocks.bytes, values.data(), factors.data());
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_LT(values[i], 1 << integers->bits);
    const float* const of_group = &factors[i / static_cast<std::size_t>(integers->group_size) * each];
    out[i] = of_group[0] * static_cast<float>(values[i] - integers->zero);
    if (integers->has_minima) out[i] += of_group[1];
  }
  EXPECT_EQ(bits_of(std::as_bytes(std::span(out))), bits_of(floats.bytes));
}

// A device may store such factors as halves, and refuses a matrix with one that is none.
TEST_P(GgufTypes, HalvesAreFactorsThatF16Has) {
  const auto integers = kept_integers(GetParam().type);
  if (!integers) return;
  const SafetensorsFile goldens(kBlockGoldens);
  const TensorView& blocks = goldens.tensors().at(std::string(GetParam().name) + ".blocks");
  const std::size_t count = goldens.tensors().at(std::string(GetParam().name) + ".floats").bytes.size() / sizeof(float);
  std::vector<std::uint8_t> values(count);
  std::vector<float> factors(integers->factors(count));
  read_gguf_integers(GetParam().type, blocks.bytes, values.data(), factors.data());
  const bool all = std::ranges::all_of(factors, [](float factor) {
    for (std::uint32_t half = 0; half < 0x10000; ++half) {
      if (half_to_float(static_cast<std::uint16_t>(half)) == factor) return true;
    }
    return false;
  });
  EXPECT_EQ(all, integers->half_factors);
}

TEST(GgufTypeNames, TypesThatAreNotServedHaveTheirNames) {
  EXPECT_EQ(find_gguf_type(10), std::nullopt);
  EXPECT_EQ(gguf_type_name(10), "Q2_K");
  EXPECT_EQ(gguf_type_name(39), "MXFP4");
  EXPECT_EQ(gguf_type_name(4), "type 4");  // was given up
  EXPECT_EQ(gguf_type_name(4000000000u), "type 4000000000");
  EXPECT_THAT(served_gguf_types(), testing::HasSubstr("Q4_K, Q5_K, Q6_K"));
}

}  // namespace
}  // namespace mortise::test
