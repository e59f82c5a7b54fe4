// Covers: plugins/models/common/checkpoint_config
#include "models/llama/config.hpp"

#include <gmock/gmock.h>

#include "plugins/models/common/config_refusals.hpp"
#include "plugins/models/common/odd_configurations.hpp"

namespace mortise::llama {
namespace {

using nlohmann::json;
using test::with;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Refused = test::ConfigRefusals<parse_config>;

json llama() {
  return json::parse(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16",
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "tie_word_embeddings": false, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})");
}

json family(const std::string& model_type, const std::string& architecture) {
  json config = llama();
  config["model_type"] = model_type;
  config["architectures"] = json::array({architecture});
  return config;
}
json mistral() {
  return family("mistral", "MistralForCausalLM");
}
json qwen2() {
  return family("qwen2", "Qwen2ForCausalLM");
}
json qwen3() {
  return family("qwen3", "Qwen3ForCausalLM");
}

json with_rope(const json& rope) {
  return with(llama(), "rope_parameters", rope);
}

Config parse(const json& config) {
  return parse_config(config.dump());
}

TEST(LlamaConfig, ReadsSizesAndFillsInWhatOldFilesLeaveOut) {
  json config = llama();
  config.erase("num_key_value_heads");  // Llama 1 has none
  config.erase("rms_norm_eps");
  config.erase("rope_parameters");
  const Config parsed = parse(config);
  EXPECT_EQ(parsed.num_kv_heads, 4);
  EXPECT_EQ(parsed.head_dim, 16);
  EXPECT_EQ(parsed.qkv_columns(), 3 * 64);
  EXPECT_EQ(parsed.norm_eps, 1e-6f);
  EXPECT_EQ(parsed.rope.theta, 10000.0);
  EXPECT_EQ(parsed.checkpoint_dtype, MORTISE_BF16);
  EXPECT_THAT(parsed.sliding_windows, IsEmpty());
}

TEST(LlamaConfig, FamiliesDifferInTheirBiasesAndNorms) {
  EXPECT_FALSE(parse(llama()).qkv_bias);
  const Config biased = parse(with(with(llama(), "attention_bias", true), "mlp_bias", true));
  EXPECT_TRUE(biased.qkv_bias && biased.o_bias && biased.mlp_bias);
  EXPECT_TRUE(parse(qwen2()).qkv_bias);
  EXPECT_FALSE(parse(with(qwen2(), "attention_bias", true)).o_bias);  // Qwen2 never has it
  EXPECT_TRUE(parse(qwen3()).qk_norm);
  EXPECT_FALSE(parse(qwen3()).qkv_bias);
  EXPECT_TRUE(parse(with(qwen3(), "attention_bias", true)).o_bias);
  EXPECT_FALSE(parse(with(mistral(), "attention_bias", true)).qkv_bias);  // nor Mistral
}

TEST(LlamaConfig, HeadDimIsGivenOrFollowsFromHiddenSize) {
  EXPECT_EQ(parse(with(llama(), "head_dim", 48)).head_dim, 48);
  EXPECT_EQ(parse(with(llama(), "head_dim", nullptr)).head_dim, 16);
  EXPECT_EQ(parse(qwen3()).head_dim, 128);  // its class default
}

TEST(LlamaConfig, MistralsWindowIsForEveryLayerAndNullIsNone) {
  EXPECT_THAT(parse(with(mistral(), "sliding_window", 16)).sliding_windows, ElementsAre(16, 16, 16));
  EXPECT_THAT(parse(with(mistral(), "sliding_window", nullptr)).sliding_windows, IsEmpty());
  EXPECT_THAT(parse(mistral()).sliding_windows, ElementsAre(4096, 4096, 4096));
}

TEST(LlamaConfig, MistralsLayerTypesNameTheLayersWithItsWindow) {
  json config =
      with(with(mistral(), "sliding_window", 16), "layer_types", {"full_attention", "sliding_attention", "attention"});
  EXPECT_THAT(parse(config).sliding_windows, ElementsAre(0, 16, 0));
  config["sliding_window"] = nullptr;
  EXPECT_THAT(Refused::invalid(config), HasSubstr("sliding_window is null"));
}

// transformers applies it to the cache of a Llama model, and not to a prompt.
TEST(LlamaConfig, LlamaTakesNoWindowThatItsSequencesCouldLeave) {
  EXPECT_THAT(parse(with(llama(), "sliding_window", 512)).sliding_windows, IsEmpty());
  EXPECT_THAT(Refused::unsupported(with(llama(), "sliding_window", 511)),
              HasSubstr("sliding_window 511 is not defined for this family"));
  EXPECT_THAT(Refused::unsupported(with(llama(), "layer_types", {"sliding_attention"})), HasSubstr("layer_types"));
}

TEST(LlamaConfig, NoConfigurationIsComputedOtherwiseThanItSays) {
  test::expect_nothing_is_misread<parse_config>({"llama", "mistral", "qwen2", "qwen3"});
}

TEST(LlamaConfig, AbsentKeyAndValueHeadsAreThoseOfTheFamily) {
  json config = with(mistral(), "num_attention_heads", 32);
  config.erase("num_key_value_heads");
  EXPECT_EQ(parse(config).num_kv_heads, 8);
  config["model_type"] = "qwen2";
  config["architectures"] = {"Qwen2ForCausalLM"};
  EXPECT_EQ(parse(config).num_kv_heads, 32);
  config["num_key_value_heads"] = nullptr;
  config["num_attention_heads"] = 16;
  EXPECT_EQ(parse(config).num_kv_heads, 16);
}

TEST(LlamaConfig, QwensWindowIsForTheLayersThatTheFileNames) {
  json config = with(with(qwen2(), "use_sliding_window", true), "sliding_window", 32);
  EXPECT_THAT(parse(with(config, "max_window_layers", 1)).sliding_windows, ElementsAre(0, 32, 32));
  EXPECT_THAT(parse(config).sliding_windows, IsEmpty());  // windows begin at layer 28, and this model has 3 layers
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(parse(config).sliding_windows, ElementsAre(32, 0, 32));
  config["use_sliding_window"] = false;
  EXPECT_THAT(Refused::invalid(config), HasSubstr("use_sliding_window is false"));
  config["use_sliding_window"] = true;
  config["sliding_window"] = nullptr;
  EXPECT_THAT(Refused::invalid(config), HasSubstr("sliding_window is null"));
  config.erase("layer_types");
  EXPECT_THAT(parse(with(config, "max_window_layers", 0)).sliding_windows, IsEmpty());
  config["layer_types"] = {"full_attention"};
  EXPECT_THAT(Refused::invalid(config), HasSubstr("a list of 3 strings"));
  config["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  EXPECT_THAT(Refused::invalid(config), HasSubstr("linear_attention"));
}

TEST(LlamaConfig, RefusesOtherModelsAndSaysWhatItTakes) {
  EXPECT_THAT(Refused::unsupported(family("gpt2", "GPT2LMHeadModel")),
              HasSubstr("model type 'gpt2' (GPT2LMHeadModel) is not one of llama, mistral, qwen2, qwen3"));
  EXPECT_THAT(Refused::unsupported(family("llama", "LlamaForSequenceClassification")),
              HasSubstr("ForSequenceClassification"));
  EXPECT_THAT(Refused::unsupported(json::object()), HasSubstr("model type ''"));
  json config = llama();
  config.erase("model_type");
  EXPECT_EQ(parse(config).num_layers, 3);  // the architecture alone will do
}

TEST(LlamaConfig, AQuantizedCheckpointSaysItsBitsAndGroups) {
  EXPECT_EQ(parse(llama()).quantization.bits, 0);
  const Config config = parse(with(llama(), "quantization_config", {{"bits", 4}, {"group_size", 128}}));
  EXPECT_EQ(config.quantization.bits, 4);
  EXPECT_EQ(config.quantization.group_size, 128);
  EXPECT_THAT(Refused::invalid(with(llama(), "quantization_config", 4)), HasSubstr("expected an object"));
  EXPECT_THAT(Refused::invalid(with(llama(), "quantization_config", json::object())),
              HasSubstr("quantization_config.bits"));
}

TEST(LlamaConfig, RefusesWhatItCannotComputeExactly) {
  EXPECT_THAT(Refused::unsupported(with(llama(), "hidden_act", "gelu")), HasSubstr("hidden_act 'gelu'"));
  EXPECT_THAT(Refused::unsupported(with(llama(), "dtype", "float8_e4m3fn")), HasSubstr("float8_e4m3fn"));
  EXPECT_THAT(Refused::unsupported(with_rope({{"rope_type", "dynamic"}, {"factor", 2.0}})),
              HasSubstr("keys depend on the length"));
  EXPECT_THAT(Refused::unsupported(with_rope({{"rope_type", "longrope"}})), HasSubstr("keys depend on the length"));
  EXPECT_THAT(Refused::unsupported(with_rope({{"rope_type", "mrope"}})),
              HasSubstr("rope type 'mrope' is not one of default, linear, llama3, yarn"));
  EXPECT_THAT(Refused::unsupported(with(llama(), "is_causal", false)), HasSubstr("is_causal false"));
  EXPECT_THAT(Refused::unsupported(with(llama(), "attention_chunk_size", 64)), HasSubstr("attention_chunk_size 64"));
  EXPECT_THAT(Refused::unsupported(with_rope({{"partial_rotary_factor", 0.5}})), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(Refused::unsupported(with_rope({{"full_attention", {{"rope_theta", 1e4}}}})),
              HasSubstr("per layer type"));
}

TEST(LlamaConfig, ReadsRopeScaling) {
  const Rope linear = parse(with_rope({{"rope_type", "linear"}, {"rope_theta", 5e5}, {"factor", 4.0}})).rope;
  EXPECT_EQ(linear.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.theta, 5e5);
  EXPECT_EQ(linear.factor, 4.0);
  json llama3 = {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}};
  EXPECT_EQ(parse(with_rope(llama3)).rope.original_max_positions, 512.0);
  llama3["original_max_position_embeddings"] = 32;
  EXPECT_EQ(parse(with_rope(llama3)).rope.original_max_positions, 32.0);
  EXPECT_THAT(Refused::invalid(with_rope(with(llama3, "high_freq_factor", 1))), HasSubstr("more than low_freq_factor"));
  EXPECT_THAT(Refused::invalid(with_rope(with(llama3, "factor", 0))),
              HasSubstr("rope_parameters.factor is 0; expected"));
  EXPECT_THAT(Refused::invalid(with_rope(with(llama3, "factor", nullptr))),
              HasSubstr("rope_parameters.factor is missing"));
  json yarn = {{"rope_type", "yarn"}, {"rope_theta", 1e6}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
  const Rope read = parse(with_rope(yarn)).rope;
  EXPECT_EQ(read.scaling, RopeScaling::kYarn);
  EXPECT_EQ(read.attention_factor, 1.138629436111989f);                         // 1 + 0.1 ln 4
  EXPECT_EQ(parse(with_rope(with(yarn, "factor", nullptr))).rope.factor, 4.0);  // 512 / 128
  EXPECT_THAT(
      Refused::invalid(with_rope(with(with(yarn, "factor", nullptr), "original_max_position_embeddings", 1024))),
      HasSubstr("max_position_embeddings is below original_max_position_embeddings"));
  EXPECT_EQ(parse(with_rope(with(yarn, "attention_factor", 1.5))).rope.attention_factor, 1.5f);
  EXPECT_EQ(parse(with_rope(with(with(yarn, "mscale", 0.7), "mscale_all_dim", 0.7))).rope.attention_factor, 1.0f);
  EXPECT_THAT(Refused::invalid(with_rope(with(yarn, "rope_theta", 1.0))), HasSubstr("more than 1 with yarn"));
  EXPECT_THAT(Refused::invalid(with_rope({{"rope_theta", 0.0}})),
              HasSubstr("rope_parameters.rope_theta is 0.0; expected"));
}

// The host's form of GGUF files: a divisor for each pair of a head.
TEST(LlamaConfig, RopeFactorsAreADivisorForEachPair) {
  const auto count = static_cast<std::size_t>(parse(llama()).head_dim / 2);
  json rope = {{"rope_type", "factors"}, {"factors", std::vector<float>(count, 2.0f)}};
  const Rope read = parse(with_rope(rope)).rope;
  EXPECT_EQ(read.scaling, RopeScaling::kFactors);
  EXPECT_EQ(read.factors, std::vector<float>(count, 2.0f));
  for (const json& wrong :
       {json(std::vector<float>(count + 1, 2.0f)), json(std::vector<float>(count, 0.5f)), json("x"), json()}) {
    EXPECT_THAT(Refused::invalid(with_rope(with(rope, "factors", wrong))), HasSubstr("numbers from 1 to 1000000"));
  }
}

TEST(LlamaConfig, HostileSizesAreRefusedWithKeyValueAndExpectation) {
  Refused::expect_of_sizes(
      llama(), {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "max_position_embeddings", "head_dim"});
  json config = llama();
  config.erase("hidden_size");
  EXPECT_THAT(Refused::invalid(config), HasSubstr("hidden_size is missing; expected an integer from 1"));
}

TEST(LlamaConfig, HeadsMustDivide) {
  EXPECT_THAT(Refused::invalid(with(llama(), "num_key_value_heads", 3)),
              HasSubstr("a divisor of num_attention_heads 4"));
  EXPECT_THAT(Refused::invalid(with(llama(), "num_key_value_heads", 8)), HasSubstr("from 1 to 4"));
  EXPECT_THAT(Refused::invalid(with(llama(), "num_attention_heads", 6)), HasSubstr("num_attention_heads is 6"));
  EXPECT_THAT(Refused::invalid(with(llama(), "head_dim", 15)), HasSubstr("even"));
  json wide = with(with(llama(), "num_attention_heads", 1 << 20), "num_key_value_heads", 1);
  EXPECT_THAT(Refused::invalid(with(wide, "head_dim", 4096)), HasSubstr("columns of q, k and v"));
}

TEST(LlamaConfig, OtherBrokenValuesAreRefused) {
  EXPECT_THAT(Refused::invalid(with(llama(), "rms_norm_eps", 0)), HasSubstr("rms_norm_eps is 0"));
  EXPECT_THAT(Refused::invalid(with(llama(), "tie_word_embeddings", "yes")), HasSubstr("expected true or false"));
  EXPECT_THAT(Refused::invalid(with(llama(), "hidden_act", 7)), HasSubstr("hidden_act is 7; expected a string"));
  EXPECT_THAT(Refused::invalid(with(llama(), "architectures", "LlamaForCausalLM")), HasSubstr("a list of strings"));
  EXPECT_THAT(Refused::invalid(with(llama(), "rope_parameters", 5)), HasSubstr("rope_parameters is 5"));
  EXPECT_THAT(Refused::invalid(with(mistral(), "sliding_window", 0)), HasSubstr("sliding_window is 0"));
  for (const char* text : {"", "[]", "{", "null", "\"llama\"", "{\"a\": 1e999}"})
    Refused::of_text(text, MORTISE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace mortise::llama
