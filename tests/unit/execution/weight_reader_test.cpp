// What a model plugin gets of a GGUF file's integers, and what they take in memory.
#include "execution/weight_reader.hpp"

#include <gmock/gmock.h>

#include <cstddef>
#include <memory>
#include <string>

#include "checkpoint/gguf/types.hpp"
#include "golden/write_gguf.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kUp = "model.layers.0.mlp.up_proj.weight";
// Columns of down_proj are no whole block, so that it stays floats.
constexpr std::uint64_t kModelHidden = 64, kModelIntermediate = 56, kModelVocab = 160, kModelLayers = 3;

class QuantizedFile : public testing::Test {
 protected:
  // A tied Llama whose matrices with `which` in their name have this type.
  Checkpoint model(GgufType type, const char* which) const {
    const GgufTypeInfo& info = info_of(type);
    GgufWriter writer = gguf_of_checkpoint(std::string(MORTISE_SOURCE_DIR) + "/tests/golden/models/llama_tied");
    writer.retype(which, static_cast<std::uint32_t>(type), info.block_elements, info.block_bytes);
    return Checkpoint::open(folder_.write("x.gguf", writer.bytes()));
  }

 private:
  const TempFolder folder_;
};

// Asks as a plugin does, whose struct has `size` bytes.
mortise_status ask(WeightReader& weights, const char* name, mortise_quantized_matrix& matrix, std::size_t size) {
  const mortise_weight_reader reader = weights.abi();
  matrix = {};
  matrix.struct_size = static_cast<std::uint32_t>(size);
  mortise_error error{};
  return reader.get_quantized(reader.context, {name, std::char_traits<char>::length(name)}, &matrix, &error);
}

TEST_F(QuantizedFile, AMatrixHasTheZeroPointAndTheFlagsOfItsType) {
  struct Case {
    GgufType type;
    std::int32_t bits, zero;
    std::uint32_t flags;
  };
  for (const auto& [type, bits, zero, flags] :
       {Case{GgufType::kQ8_0, 8, 128, MORTISE_QUANTIZED_F16_SCALES},
        Case{GgufType::kQ5_0, 8, 16, MORTISE_QUANTIZED_F16_SCALES},
        Case{GgufType::kQ4_1, 4, 0, MORTISE_QUANTIZED_F16_SCALES | MORTISE_QUANTIZED_MINIMA}}) {
    const Checkpoint checkpoint = model(type, "ffn_");
    WeightReader weights(checkpoint);
    mortise_quantized_matrix matrix;
    ASSERT_EQ(ask(weights, kUp, matrix, sizeof matrix), MORTISE_OK);
    EXPECT_EQ(matrix.value_type, MORTISE_I8_BLOCK32);
    EXPECT_EQ(matrix.bits, bits);
    EXPECT_EQ(matrix.group_size, 32);
    EXPECT_EQ(matrix.zero, zero);
    EXPECT_EQ(matrix.flags, flags);
    EXPECT_EQ(matrix.order, nullptr);
    EXPECT_EQ(ask(weights, "model.layers.0.self_attn.q_proj.weight", matrix, sizeof matrix), MORTISE_NOT_FOUND);
  }
}

// Its struct ends before value_type, so it could not tell these values from plain integers.
TEST_F(QuantizedFile, APluginOfAbi05GetsFloats) {
  const Checkpoint checkpoint = model(GgufType::kQ4_1, "ffn_");
  WeightReader weights(checkpoint);
  mortise_quantized_matrix matrix;
  EXPECT_EQ(ask(weights, kUp, matrix, offsetof(mortise_quantized_matrix, value_type)), MORTISE_NOT_FOUND);
  const mortise_weight_reader reader = weights.abi();
  mortise_tensor tensor{};
  ASSERT_EQ(reader.get(reader.context, {kUp, std::char_traits<char>::length(kUp)}, &tensor), MORTISE_OK);
  EXPECT_EQ(tensor.dtype, MORTISE_F32);
  EXPECT_THAT(weights.widened(), HasSubstr("weights of Q4_1 are computed as f32"));
}

TEST_F(QuantizedFile, PreparedBytesAreThoseOfTheTypesInTheFile) {
  mortise_model_dims dims{};
  dims.vocab_size = kModelVocab;
  dims.dtype = MORTISE_F32;
  const std::uint64_t floats = prepared_bytes(model(GgufType::kQ4_1, "ffn_"), dims);  // as with weights = "float"
  dims.weight_bits = 4;
  dims.weight_type = MORTISE_I8_BLOCK32;
  const std::uint64_t mlp = kModelLayers * 2 * kModelIntermediate * kModelHidden,
                      attention = kModelLayers * 4 * kModelHidden * kModelHidden;
  EXPECT_EQ(prepared_bytes(model(GgufType::kQ4_1, "ffn_"), dims), floats - mlp * 4 + mlp / 2 + mlp / 32 * 4);
  EXPECT_EQ(prepared_bytes(model(GgufType::kQ5_0, "ffn_"), dims), floats - mlp * 4 + mlp + mlp / 32 * 2);
  // A tied embedding is kept as the head beside its floats.
  const std::uint64_t head = kModelVocab * kModelHidden, kept = mlp + attention + head;
  EXPECT_EQ(prepared_bytes(model(GgufType::kQ8_0, ""), dims), floats - (mlp + attention) * 4 + kept + kept / 32 * 2);
}

}  // namespace
}  // namespace mortise::test
