// Quantised checkpoints against what tests/golden/make_quantized.py packed by the rules of the libraries that define
// the layouts: each weight must come back exactly.
#include "checkpoint/quantized_matrix.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "checkpoint/checkpoint.hpp"
#include "folder_test.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/reference/linear.hpp"
#include "kernels/cpu/reference/linear_fp8.hpp"
#include "kernels/cpu/reference/linear_int.hpp"
#include "kernels/cpu/reference/linear_mxfp4.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kGoldens = std::string(MORTISE_SOURCE_DIR) + "/tests/golden/quantized";

std::vector<double> doubles(const SafetensorsFile& file, const char* name) {
  const TensorView& view = file.tensors().at(name);
  std::vector<double> values(view.bytes.size() / sizeof(double));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

double number_of_e2m1(std::uint8_t bits) {
  constexpr double kNumbers[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return bits < 8 ? kNumbers[bits] : -kNumbers[bits - 8];
}

// Returns the weights [N, K] that the matrix stands for. Reads it in two pieces, as threads do.
std::vector<double> dequantized(const QuantizedMatrix& matrix) {
  const auto n = static_cast<std::size_t>(matrix.rows()), k = static_cast<std::size_t>(matrix.columns());
  const auto group = static_cast<std::size_t>(matrix.group_size()), groups = (k + group - 1) / group;
  std::vector<std::uint8_t> values(n * k), zeros(n * groups);
  std::vector<float> scales(n * groups);
  const std::size_t half = n / 2 + 1;
  matrix.read(0, static_cast<std::int64_t>(half), values.data(), scales.data(), zeros.data());
  matrix.read(static_cast<std::int64_t>(half), matrix.rows(), &values[half * k], &scales[half * groups],
              &zeros[half * groups]);
  std::vector<double> w(n * k);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const std::size_t column = matrix.order().empty() ? j : static_cast<std::size_t>(matrix.order()[j]);
      const std::size_t g = i * groups + j / group;
      const std::uint8_t bits = values[i * k + j];
      const double value = matrix.type() == QuantizedType::kE4m3   ? double{cpu::reference::from_e4m3(bits)}
                           : matrix.type() == QuantizedType::kE2m1 ? number_of_e2m1(bits)
                                                                   : static_cast<double>(bits) - zeros[g];
      w[i * k + column] = double{scales[g]} * value;
    }
  }
  return w;
}

class QuantizedGolden : public testing::TestWithParam<std::string> {};

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Layouts, QuantizedGolden, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

TEST_P(QuantizedGolden, EachWeightComesBackExactly) {
  const auto checkpoint = Checkpoint::open(kGoldens / GetParam());
  const auto matrix = checkpoint.find_quantized("p.weight");
  ASSERT_TRUE(matrix.has_value());
  EXPECT_EQ(dequantized(*matrix), doubles(SafetensorsFile(kGoldens / GetParam() / "expected.safetensors"), "w"));
  EXPECT_EQ(GetParam().find("act_order") != std::string::npos, !matrix->order().empty());
  EXPECT_FALSE(checkpoint.find_quantized("q.weight").has_value());
  EXPECT_FALSE(checkpoint.find_quantized("p.bias").has_value());
}

// What `read` gives for E4M3, multiplied as specified: only f32 is between the product and numpy's.
std::vector<float> fp8_product(const QuantizedMatrix& matrix, const std::vector<double>& x) {
  const auto n = static_cast<std::size_t>(matrix.rows()), k = static_cast<std::size_t>(matrix.columns());
  const auto group = static_cast<std::size_t>(matrix.group_size());
  cpu::reference::Fp8Weight weight = {n, k, group, std::vector<std::uint8_t>(n * k),
                                      std::vector<float>(n * ((k + group - 1) / group))};
  matrix.read(0, matrix.rows(), weight.values.data(), weight.scales.data(), nullptr);
  const std::vector<float> rows(x.begin(), x.end());
  std::vector<float> product(rows.size() / k * n);
  cpu::reference::linear_fp8(rows.data(), weight, nullptr, product.data(), rows.size() / k);
  return product;
}

// The same for MXFP4, whose product is that of the widened weights.
std::vector<float> mxfp4_product(const QuantizedMatrix& matrix, const std::vector<double>& x) {
  const auto n = static_cast<std::size_t>(matrix.rows()), k = static_cast<std::size_t>(matrix.columns());
  std::vector<float> scales(n * (k / 32)), w;
  cpu::reference::Mxfp4Weight weight = {n, k, std::vector<std::uint8_t>(n * k), {}};
  matrix.read(0, matrix.rows(), weight.values.data(), scales.data(), nullptr);
  for (const float scale : scales) weight.exponents.push_back(static_cast<std::uint8_t>(std::ilogb(scale) + 127));
  for (const std::uint32_t value : cpu::reference::widen_mxfp4(weight)) w.push_back(std::bit_cast<float>(value << 16));
  const std::vector<float> rows(x.begin(), x.end());
  std::vector<float> product(rows.size() / k * n);
  cpu::reference::linear_f32(rows.data(), w.data(), nullptr, product.data(), rows.size() / k, n, k);
  return product;
}

// The specified arithmetic on what was read, against the product that numpy computed in double: only the rounding of x
// to int8 (for integers) and f32 are between them.
TEST_P(QuantizedGolden, ItsProductIsThatOfTheDequantizedMatrix) {
  const cpu::DenormalsOff off;
  const SafetensorsFile golden(kGoldens / GetParam() / "expected.safetensors");
  const std::vector<double> w = doubles(golden, "w"), x = doubles(golden, "x"), y = doubles(golden, "y");
  const auto checkpoint = Checkpoint::open(kGoldens / GetParam());
  const auto matrix = checkpoint.find_quantized("p.weight");
  ASSERT_TRUE(matrix.has_value());
  const auto n = static_cast<std::size_t>(matrix->rows()), k = static_cast<std::size_t>(matrix->columns());
  const auto group = static_cast<std::size_t>(matrix->group_size()), groups = (k + group - 1) / group;
  std::vector<float> product(4 * n);
  if (matrix->type() == QuantizedType::kE4m3) {
    product = fp8_product(*matrix, x);
  } else if (matrix->type() == QuantizedType::kE2m1) {
    product = mxfp4_product(*matrix, x);
  } else {
    cpu::reference::IntWeight weight = {n, k, group, {}, {}, {}, matrix->order()};
    weight.values.resize(n * k), weight.scales.resize(n * groups), weight.zeros.resize(n * groups);
    matrix->read(0, matrix->rows(), weight.values.data(), weight.scales.data(), weight.zeros.data());
    const std::vector<float> rows(x.begin(), x.end());
    cpu::reference::linear_int(rows.data(), weight, nullptr, product.data(), 4);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    double most = 0;
    for (std::size_t j = 0; j < k; ++j) most = std::max(most, std::fabs(x[i * k + j]));
    for (std::size_t c = 0; c < n; ++c) {
      double weights = 0;
      for (std::size_t j = 0; j < k; ++j) weights += std::fabs(w[c * k + j]);
      const double rounding = matrix->type() != QuantizedType::kInteger ? 0 : most / 254;  // of x to int8
      EXPECT_NEAR(product[i * n + c], y[i * n + c], (rounding + most * 0x1p-18) * weights);
    }
  }
}

TEST(QuantizedGoldens, AreAllThere) {
  EXPECT_GE(golden_names().size(), 21u);  // fewer: a layout is no longer tested
}

// A checkpoint of one matrix, of which a test breaks a tensor.
class QuantizedFile : public FolderTest {
 protected:
  static TensorToWrite tensor(const char* name, const char* dtype, const std::vector<std::int64_t>& shape) {
    std::size_t bytes = std::string(dtype).starts_with("F8")                 ? 1
                        : std::string(dtype).find("64") != std::string::npos ? 8
                        : std::string(dtype).find("16") != std::string::npos ? 2
                        : std::string(dtype).find('8') != std::string::npos  ? 1
                                                                             : 4;
    for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    return {name, dtype, shape, std::string(bytes, '\0')};
  }

  std::string error_for(const std::string& section, const std::vector<TensorToWrite>& tensors) {
    write("config.json", R"({"model_type": "llama", "quantization_config": )" + section + "}");
    write("model.safetensors", safetensors_bytes(tensors));
    const auto checkpoint = Checkpoint::open(folder_);
    return error_of([&] { checkpoint.find_quantized("p.weight"); });
  }

  const std::string gptq_ = R"({"quant_method": "gptq", "bits": 4, "group_size": 32})";
  const std::string packed_ =
      R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"weights":
          {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}})";
};

TEST_F(QuantizedFile, TensorsThatDoNotFitEachOtherAreNamedWithWhatIsExpected) {
  const auto qweight = tensor("p.qweight", "I32", {8, 16}), scales = tensor("p.scales", "F16", {2, 16}),
             qzeros = tensor("p.qzeros", "I32", {2, 2});
  EXPECT_EQ(error_for(gptq_, {qweight, qzeros, scales}), "");
  EXPECT_THAT(error_for(gptq_, {qweight, qzeros}),
              HasSubstr("tensor p.scales is missing, but a quantised matrix needs it; download the checkpoint again"));
  EXPECT_THAT(error_for(gptq_, {qweight, scales}), HasSubstr("tensor p.qzeros is missing"));
  EXPECT_THAT(error_for(gptq_, {qweight, qzeros, tensor("p.scales", "F16", {4, 16})}),
              HasSubstr("tensor p.scales is F16 [4, 16]; expected F16, BF16 or F32 [2, 16]"));
  EXPECT_THAT(error_for(gptq_, {qweight, tensor("p.qzeros", "I32", {2, 3}), scales}),
              HasSubstr("tensor p.qzeros is I32 [2, 3]; expected I32 [2, 2]"));
  EXPECT_THAT(error_for(gptq_, {tensor("p.qweight", "I64", {8, 16}), qzeros, scales}),
              HasSubstr("tensor p.qweight is I64 [8, 16]; expected I32 with two dimensions"));
  EXPECT_THAT(error_for(gptq_, {qweight, qzeros, scales, tensor("p.g_idx", "I32", {63})}),
              HasSubstr("tensor p.g_idx is I32 [63]; expected I32 [64]"));
}

TEST_F(QuantizedFile, ACompressedMatrixIsCheckedAgainstItsShape) {
  const auto words = tensor("p.weight_packed", "I32", {5, 8}), scale = tensor("p.weight_scale", "BF16", {5, 2});
  auto shape = tensor("p.weight_shape", "I64", {2});
  EXPECT_THAT(error_for(packed_, {words, shape, scale}),
              HasSubstr("tensor p.weight_packed is I32 [5, 8]; expected I32 [0"));
  shape.bytes[0] = 5, shape.bytes[8] = 64;
  EXPECT_EQ(error_for(packed_, {words, shape, scale}), "");
  EXPECT_THAT(error_for(packed_, {words, scale}), HasSubstr("tensor p.weight_shape is missing"));
  EXPECT_THAT(error_for(packed_, {words, shape, tensor("p.weight_scale", "BF16", {5, 3})}),
              HasSubstr("tensor p.weight_scale is BF16 [5, 3]; expected F16, BF16 or F32 [5, groups] for 64 columns"));
  EXPECT_THAT(error_for(packed_, {words, shape, scale, tensor("p.weight_zero_point", "I32", {5, 2})}),
              HasSubstr("tensor p.weight_zero_point is I32 [5, 2]; expected I32 [1, 2] or I8 [5, 2]"));
}

TEST_F(QuantizedFile, AnFp8MatrixIsCheckedAgainstItsScales) {
  const std::string section = R"({"quant_method": "fp8", "weight_block_size": [128, 128]})";
  const auto weight = tensor("p.weight", "F8_E4M3", {130, 200}), blocks = tensor("p.weight_scale_inv", "F32", {2, 2});
  EXPECT_EQ(error_for(section, {weight, blocks}), "");
  EXPECT_EQ(error_for(section, {weight, tensor("p.weight_scale", "BF16", {130, 1})}), "");
  EXPECT_EQ(error_for(section, {weight, tensor("p.weight_scale", "F32", {})}), "");
  EXPECT_EQ(error_for(section, {tensor("p.weight", "BF16", {130, 200})}), "");  // a module that is not converted
  EXPECT_THAT(error_for(section, {weight}), HasSubstr("tensor p.weight_scale is missing"));
  EXPECT_THAT(
      error_for(section, {weight, tensor("p.weight_scale_inv", "F32", {2, 3})}),
      HasSubstr("tensor p.weight_scale_inv is F32 [2, 3]; expected F32, BF16 or F16 [1] for the matrix, [130, 1] "
                "for its rows, or [2, 2] for blocks of 128 x 128"));
  EXPECT_THAT(
      error_for(section, {tensor("p.weight", "F8_E5M2", {130, 200}), blocks}),
      HasSubstr("tensor p.weight is F8_E5M2 [130, 200]; expected F8_E4M3 with two dimensions; use a checkpoint in "
                "E4M3, or the unquantised one"));
  auto infinite = blocks;
  infinite.bytes[3 * 4 + 2] = static_cast<char>(0x80), infinite.bytes[3 * 4 + 3] = 0x7f;
  EXPECT_THAT(error_for(section, {weight, infinite}),
              HasSubstr("tensor p.weight_scale_inv: scale 3 is not finite; the checkpoint is damaged"));
}

TEST_F(QuantizedFile, AnMxfp4MatrixIsCheckedAgainstItsScales) {
  const std::string section =
      R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"group_0": {"weights":
          {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}}}})";
  const auto packed = tensor("p.weight_packed", "U8", {5, 48});
  auto scale = tensor("p.weight_scale", "U8", {5, 3});
  EXPECT_EQ(error_for(section, {packed, scale}), "");
  EXPECT_EQ(error_for(section, {tensor("p.weight", "BF16", {5, 96})}), "");  // a module that is not converted
  EXPECT_THAT(error_for(section, {packed}), HasSubstr("tensor p.weight_scale is missing"));
  EXPECT_THAT(error_for(section, {packed, tensor("p.weight_scale", "U8", {5, 4})}),
              HasSubstr("tensor p.weight_scale is U8 [5, 4]; expected U8 [5, 3]"));
  EXPECT_THAT(error_for(section, {packed, tensor("p.weight_scale", "BF16", {5, 3})}),
              HasSubstr("tensor p.weight_scale is BF16 [5, 3]; expected U8 [5, 3]"));
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{5, 47}, {240}}) {
    EXPECT_THAT(error_for(section, {tensor("p.weight_packed", "U8", shape), scale}),
                HasSubstr("expected U8 [rows, columns / 2] of MXFP4, with columns in groups of 32"));
  }
  scale.bytes[10] = static_cast<char>(252);  // the largest: 6 * 2^125 is a bf16 number
  EXPECT_EQ(error_for(section, {packed, scale}), "");
  scale.bytes[10] = static_cast<char>(253);
  EXPECT_THAT(
      error_for(section, {packed, scale}),
      HasSubstr("tensor p.weight_scale: the scale of row 3, columns 32 to 63 is 2^126 (253): its numbers exceed "
                "bf16, which ends at 2^128, and would not be exact; use the checkpoint that it was made from"));
  scale.bytes[7] = static_cast<char>(255);
  EXPECT_THAT(error_for(section, {packed, scale}),
              HasSubstr("tensor p.weight_scale: the scale of row 2, columns 32 to 63 is NaN (255); the checkpoint is "
                        "damaged: download it again, or use another one"));
}

TEST_F(QuantizedFile, AnActOrderWithUnevenGroupsIsRefused) {
  auto g_idx = tensor("p.g_idx", "I32", {64});  // all columns in group 0
  EXPECT_THAT(error_for(gptq_, {tensor("p.qweight", "I32", {8, 16}), tensor("p.qzeros", "I32", {2, 2}),
                                tensor("p.scales", "F16", {2, 16}), g_idx}),
              HasSubstr("tensor p.g_idx puts column 32 into group 0; expected 2 groups of 32 columns each"));
  g_idx.bytes[0] = 7;
  EXPECT_THAT(error_for(gptq_, {tensor("p.qweight", "I32", {8, 16}), tensor("p.qzeros", "I32", {2, 2}),
                                tensor("p.scales", "F16", {2, 16}), g_idx}),
              HasSubstr("puts column 0 into group 7"));
}

}  // namespace
}  // namespace mortise::test
