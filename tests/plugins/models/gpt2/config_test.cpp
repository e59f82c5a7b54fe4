// Covers: plugins/models/common/checkpoint_config
#include "models/gpt2/config.hpp"

#include <gmock/gmock.h>

#include "plugins/models/common/config_refusals.hpp"
#include "plugins/models/common/odd_configurations.hpp"

namespace mortise::gpt2 {
namespace {

using models::DecoderConfig;
using nlohmann::json;
using test::with;
using ::testing::HasSubstr;
using Refused = test::ConfigRefusals<parse_config>;

json gpt2() {
  return json::parse(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "dtype": "float32",
    "vocab_size": 96, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 512, "n_ctx": 512,
    "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"})");
}

TEST(Gpt2Config, ReadsWhatGpt2Says) {
  const DecoderConfig config = parse_config(gpt2().dump());
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.embedding_size, 64);
  EXPECT_EQ(config.intermediate_size, 256);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.max_positions, 512);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_EQ(config.attention_scale, 0.25f);
  EXPECT_EQ(config.activation, MORTISE_ACT_GELU_TANH);
  EXPECT_EQ(config.checkpoint_dtype, MORTISE_F32);
  EXPECT_TRUE(config.norm_first && config.final_norm && config.biases && config.norm_weights && config.tied_embeddings);
}

TEST(Gpt2Config, ReadsTheVariants) {
  EXPECT_EQ(parse_config(with(gpt2(), "n_inner", 100).dump()).intermediate_size, 100);
  EXPECT_EQ(parse_config(with(gpt2(), "n_inner", nullptr).dump()).intermediate_size, 256);
  EXPECT_EQ(parse_config(with(gpt2(), "scale_attn_weights", false).dump()).attention_scale, 1.0f);
  EXPECT_EQ(parse_config(with(gpt2(), "activation_function", "relu").dump()).activation, MORTISE_ACT_RELU);
  EXPECT_EQ(parse_config(with(gpt2(), "layer_norm_epsilon", 1e-2).dump()).norm_eps, 1e-2f);
  EXPECT_FALSE(parse_config(with(gpt2(), "tie_word_embeddings", false).dump()).tied_embeddings);
  EXPECT_EQ(parse_config(with(gpt2(), "reorder_and_upcast_attn", true).dump()).attention_scale, 0.25f);
}

TEST(Gpt2Config, TakesTheGeneralNamesOfSizes) {
  json config = gpt2();
  config.erase("n_embd");
  config["hidden_size"] = 32;
  EXPECT_EQ(parse_config(config.dump()).hidden_size, 32);
  EXPECT_THAT(Refused::invalid(with(gpt2(), "hidden_size", 32)),
              HasSubstr("hidden_size is 32; expected the same as n_embd, 64"));
  EXPECT_EQ(parse_config(with(gpt2(), "hidden_size", 64).dump()).hidden_size, 64);
}

TEST(Gpt2Config, RefusesOtherModelsAndWhatItCannotCompute) {
  EXPECT_THAT(Refused::unsupported(with(gpt2(), "architectures", {"GPT2ForSequenceClassification"})),
              HasSubstr("model type 'gpt2' (GPT2ForSequenceClassification) is not gpt2 with GPT2LMHeadModel"));
  EXPECT_THAT(Refused::unsupported(with(gpt2(), "activation_function", "mish")),
              HasSubstr("activation_function 'mish' is not supported; expected one of relu, gelu,"));
  EXPECT_THAT(Refused::unsupported(with(gpt2(), "add_cross_attention", true)),
              HasSubstr("add_cross_attention true makes a decoder that reads an encoder; expected false"));
  EXPECT_THAT(
      Refused::unsupported(with(gpt2(), "scale_attn_by_inverse_layer_idx", true)),
      HasSubstr("scale_attn_by_inverse_layer_idx true (another attention scale in each layer) is not supported"));
}

TEST(Gpt2Config, HostileValuesAreRefusedWithKeyValueAndExpectation) {
  Refused::expect_of_sizes(gpt2(), {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "n_inner"});
  json config = gpt2();
  config.erase("n_positions");
  EXPECT_THAT(Refused::invalid(config), HasSubstr("n_positions is missing; expected an integer from 1"));
  EXPECT_THAT(Refused::invalid(with(gpt2(), "n_head", 6)), HasSubstr("n_head is 6; expected a divisor of n_embd 64"));
  EXPECT_THAT(Refused::invalid(with(gpt2(), "layer_norm_epsilon", 0)), HasSubstr("layer_norm_epsilon is 0"));
  EXPECT_THAT(Refused::invalid(with(gpt2(), "scale_attn_weights", 0)), HasSubstr("expected true or false"));
  for (const char* text : {"", "[]", "{", "null"}) Refused::of_text(text, MORTISE_INVALID_ARGUMENT);
}

TEST(Gpt2Config, NoConfigurationIsComputedOtherwiseThanItSays) {
  test::expect_nothing_is_misread<parse_config>({"gpt2"});
}

}  // namespace
}  // namespace mortise::gpt2
