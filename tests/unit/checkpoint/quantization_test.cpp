#include "checkpoint/quantization.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "folder_test.hpp"

namespace mortise::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json with_quantization(const json& section) {
  return {{"model_type", "llama"}, {"quantization_config", section}};
}

std::optional<QuantizationConfig> read(const json& section) {
  json config = with_quantization(section);
  return normalise_quantization(config, "config.json");
}

std::string error_for(const json& section) {
  return error_of([&] { read(section); });
}

const json kGptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"desc_act", true}, {"sym", true}};
const json kAwq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 64}, {"zero_point", true}, {"version", "gemm"}};
const json kWeights = {
    {"num_bits", 4}, {"type", "int"}, {"symmetric", true}, {"strategy", "group"}, {"group_size", 32}};

json compressed(const json& weights, const json& activations = nullptr) {
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups",
           {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", activations}}}}}};
}

json changed(json section, const char* key, const json& value) {
  section[key] = value;
  return section;
}

const json kFp8 = {
    {"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}, {"fmt", "e4m3"}};
const json kFloatWeights = {{"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"strategy", "channel"}};

json float_quantized(const char* strategy) {
  const json activations = {{"num_bits", 8}, {"type", "float"}, {"strategy", "token"}, {"dynamic", true}};
  json weights = changed(kFloatWeights, "strategy", strategy);
  if (std::string(strategy) == "block") weights["block_structure"] = {128, 128};
  return changed(compressed(weights, activations), "format", "float-quantized");
}

const json kMxfp4Weights = {
    {"num_bits", 4}, {"type", "float"}, {"symmetric", true}, {"strategy", "group"}, {"group_size", 32}};

json mxfp4(const json& weights, const json& activations = nullptr) {
  return changed(compressed(weights, activations), "format", "mxfp4-pack-quantized");
}

TEST(Quantization, AFloatCheckpointHasNone) {
  json config = {{"model_type", "llama"}, {"quantization_config", nullptr}};
  EXPECT_EQ(normalise_quantization(config, "config.json"), std::nullopt);
  EXPECT_EQ(config, json({{"model_type", "llama"}}));
}

TEST(Quantization, PluginsSeeMethodBitsAndGroupSizeAlone) {
  json config = with_quantization(kGptq);
  normalise_quantization(config, "config.json");
  EXPECT_EQ(config["quantization_config"], json({{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}}));
  config = {{"compression_config", compressed(kWeights)}};
  normalise_quantization(config, "config.json");
  EXPECT_EQ(config,
            json({{"quantization_config", {{"quant_method", "compressed-tensors"}, {"bits", 4}, {"group_size", 32}}}}));
}

TEST(Quantization, ReadsTheThreeLayouts) {
  EXPECT_EQ(read(kGptq)->layout, QuantizedLayout::kGptq);
  EXPECT_TRUE(read(kGptq)->zeros_minus_one);
  EXPECT_FALSE(read(changed(kGptq, "checkpoint_format", "gptq_v2"))->zeros_minus_one);
  EXPECT_EQ(read(changed(kGptq, "group_size", -1))->group_size, 0);
  EXPECT_EQ(read(changed(kGptq, "bits", 8))->bits, 8);
  EXPECT_EQ(read(kAwq)->layout, QuantizedLayout::kAwq);
  EXPECT_EQ(read(compressed(kWeights))->layout, QuantizedLayout::kCompressedTensors);
  json int8 = {{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}};
  const json activations = {{"num_bits", 8}, {"type", "int"}, {"strategy", "token"}, {"dynamic", true}};
  EXPECT_EQ(read(changed(compressed(int8, activations), "format", "int-quantized"))->group_size, 0);
}

TEST(Quantization, ReadsFp8) {
  const auto blocks = read(kFp8);
  EXPECT_EQ(blocks->layout, QuantizedLayout::kFp8);
  EXPECT_EQ(blocks->type, QuantizedType::kE4m3);
  EXPECT_EQ(blocks->bits, 8);
  EXPECT_EQ(blocks->group_size, 128);
  EXPECT_EQ(read({{"quant_method", "fp8"}, {"activation_scheme", "static"}})->group_size, 0);
  EXPECT_EQ(read(float_quantized("block"))->group_size, 128);
  for (const char* strategy : {"tensor", "channel"}) {
    const auto config = read(float_quantized(strategy));
    EXPECT_EQ(config->layout, QuantizedLayout::kCompressedTensors);
    EXPECT_EQ(config->type, QuantizedType::kE4m3);
    EXPECT_EQ(config->group_size, 0);
  }
  EXPECT_EQ(read(compressed(kWeights))->type, QuantizedType::kInteger);
  json config = with_quantization(kFp8);
  normalise_quantization(config, "config.json");
  EXPECT_EQ(config["quantization_config"],
            json({{"quant_method", "fp8"}, {"bits", 8}, {"group_size", 128}, {"type", "fp8"}}));
}

TEST(Quantization, ReadsMxfp4WithAndWithoutActivations) {
  for (const json& activations : {json(nullptr), changed(kMxfp4Weights, "dynamic", true)}) {
    const auto config = read(mxfp4(kMxfp4Weights, activations));
    EXPECT_EQ(config->layout, QuantizedLayout::kCompressedTensors);
    EXPECT_EQ(config->type, QuantizedType::kE2m1);
    EXPECT_EQ(config->bits, 4);
    EXPECT_EQ(config->group_size, 32);
  }
  json config = with_quantization(mxfp4(kMxfp4Weights));
  normalise_quantization(config, "config.json");
  EXPECT_EQ(config["quantization_config"],
            json({{"quant_method", "compressed-tensors"}, {"bits", 4}, {"group_size", 32}, {"type", "mxfp4"}}));
}

TEST(Quantization, RefusesGptOssByName) {
  EXPECT_THAT(
      error_for({{"quant_method", "mxfp4"}, {"modules_to_not_convert", json::array()}}),
      HasSubstr("quantization_config.quant_method is 'mxfp4', the format of gpt-oss, whose matrices are those of "
                "experts; mixtures of experts are not served; use a dense model"));
}

TEST(Quantization, RefusesAnythingElseAndSaysWhatIsSupported) {
  constexpr const char* kAll =
      "supported are gptq (4 or 8 bits), awq (version gemm, 4 bits), compressed-tensors "
      "(pack-quantized or int-quantized, 4 or 8 bits; float-quantized, 8 bits; mxfp4-pack-quantized) and fp8 (E4M3, "
      "per";
  EXPECT_THAT(error_for({{"quant_method", "bitsandbytes"}}),
              HasSubstr(R"(config.json: quantization_config.quant_method is '"bitsandbytes"')"));
  const std::vector<std::pair<json, const char*>> cases = {
      {{{"quant_method", "fbgemm_fp8"}}, "quant_method"},
      {changed(kFp8, "weight_block_size", {64, 128}), "weight_block_size"},
      {changed(kFp8, "fmt", "e5m2"), "fmt"},
      {changed(kFp8, "activation_scheme", "some"), "activation_scheme"},
      {{{"bits", 4}}, "quant_method"},
      {changed(kGptq, "bits", 3), "bits is '3'"},
      {changed(kGptq, "bits", nullptr), "bits is missing"},
      {changed(kGptq, "checkpoint_format", "marlin"), "checkpoint_format"},
      {changed(kGptq, "dynamic", {{"+:.*down.*", {{"bits", 8}}}}), "dynamic"},
      {changed(kAwq, "version", "gemv"), "version"},
      {changed(kAwq, "bits", 8), "bits"},
      {changed(compressed(kWeights), "format", "nvfp4-pack-quantized"), "format"},
      {changed(compressed(kWeights), "format", "float-quantized"), "group_0.weights.type"},
      {changed(compressed(kFloatWeights), "format", "int-quantized"), "group_0.weights.type"},
      {float_quantized("group"), "group_0.weights.strategy"},
      {changed(compressed(changed(changed(kFloatWeights, "strategy", "block"), "block_structure", {1, 128})), "format",
               "float-quantized"),
       "group_0.weights.block_structure"},
      {changed(compressed(changed(kFloatWeights, "num_bits", 4)), "format", "float-quantized"),
       "group_0.weights.num_bits"},
      {mxfp4(changed(kMxfp4Weights, "type", "int")), "group_0.weights.type"},
      {mxfp4(changed(kMxfp4Weights, "num_bits", 8)), "group_0.weights.num_bits"},
      {mxfp4(changed(kMxfp4Weights, "strategy", "channel")), "group_0.weights.strategy"},
      {mxfp4(changed(kMxfp4Weights, "group_size", 16)), "group_0.weights.group_size"},
      {mxfp4(changed(kMxfp4Weights, "dynamic", true)), "group_0.weights.dynamic"},
      {mxfp4(kMxfp4Weights, {{"num_bits", 8}, {"type", "float"}}), "group_0.input_activations.num_bits"},
      {mxfp4(kMxfp4Weights, {{"num_bits", 4}, {"type", "int"}}), "group_0.input_activations.type"},
      {changed(compressed(kWeights), "config_groups", json::object()), "config_groups"},
      {changed(compressed(kWeights), "transform_config", {{"config_groups", 1}}), "transform_config"},
      {changed(compressed(kWeights), "sparsity_config", {{"format", "sparse-24-bitmask"}}), "sparsity_config"},
      {compressed(changed(kWeights, "type", "float")), "group_0.weights.type"},
      {compressed(changed(kWeights, "num_bits", 2)), "group_0.weights.num_bits"},
      {compressed(changed(kWeights, "strategy", "block")), "group_0.weights.strategy"},
      {compressed(changed(kWeights, "dynamic", true)), "group_0.weights.dynamic"},
      {compressed(kWeights, {{"num_bits", 8}, {"type", "float"}}), "group_0.input_activations.type"},
      {compressed(kWeights, {{"num_bits", 4}, {"type", "int"}}), "group_0.input_activations.num_bits"},
  };
  for (const auto& [section, key] : cases) {
    const std::string error = error_for(section);
    EXPECT_THAT(error, HasSubstr(key)) << section;
    EXPECT_THAT(error, HasSubstr(kAll)) << section;
  }
}

TEST(Quantization, RefusesGroupsThatNoKernelHas) {
  for (const int size : {0, 16, 48, 96, -2}) {
    EXPECT_THAT(error_for(changed(kGptq, "group_size", size)),
                HasSubstr("group_size is " + std::to_string(size) + "; expected 32, a multiple of 64, or -1"));
  }
  EXPECT_THAT(error_for("yes"), HasSubstr("expected an object"));
}

}  // namespace
}  // namespace mortise::test
