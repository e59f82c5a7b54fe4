#include "models/opt/config.hpp"

#include <gmock/gmock.h>

#include "plugins/models/common/config_refusals.hpp"
#include "plugins/models/common/odd_configurations.hpp"

namespace mortise::opt {
namespace {

using models::DecoderConfig;
using nlohmann::json;
using test::with;
using ::testing::HasSubstr;
using Refused = test::ConfigRefusals<parse_config>;

json opt() {
  return json::parse(R"({"model_type": "opt", "architectures": ["OPTForCausalLM"], "dtype": "float16",
    "vocab_size": 96, "hidden_size": 64, "ffn_dim": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 512, "word_embed_proj_dim": 64, "do_layer_norm_before": true,
    "activation_function": "relu", "_remove_final_layer_norm": false, "prefix": "</s>"})");
}

TEST(OptConfig, ReadsWhatOpt125mSays) {
  const DecoderConfig config = parse_config(opt().dump());
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.embedding_size, 64);
  EXPECT_EQ(config.intermediate_size, 80);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.vocab_size, 96);
  EXPECT_EQ(config.max_positions, 512);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_EQ(config.attention_scale, 0.25f);
  EXPECT_EQ(config.activation, MORTISE_ACT_RELU);
  EXPECT_EQ(config.checkpoint_dtype, MORTISE_F16);
  EXPECT_TRUE(config.norm_first && config.final_norm && config.biases && config.norm_weights && config.tied_embeddings);
}

TEST(OptConfig, ReadsWhatOpt350mSays) {
  const DecoderConfig config =
      parse_config(with(with(opt(), "do_layer_norm_before", false), "word_embed_proj_dim", 40).dump());
  EXPECT_FALSE(config.norm_first);
  EXPECT_FALSE(config.final_norm);
  EXPECT_EQ(config.embedding_size, 40);
}

TEST(OptConfig, ReadsTheVariants) {
  EXPECT_FALSE(parse_config(with(opt(), "_remove_final_layer_norm", true).dump()).final_norm);
  EXPECT_FALSE(parse_config(with(opt(), "enable_bias", false).dump()).biases);
  EXPECT_FALSE(parse_config(with(opt(), "layer_norm_elementwise_affine", false).dump()).norm_weights);
  EXPECT_FALSE(parse_config(with(opt(), "tie_word_embeddings", false).dump()).tied_embeddings);
  EXPECT_EQ(parse_config(with(opt(), "activation_function", "gelu").dump()).activation, MORTISE_ACT_GELU);
  EXPECT_EQ(parse_config(with(opt(), "activation_function", "gelu_new").dump()).activation, MORTISE_ACT_GELU_TANH);
  EXPECT_EQ(parse_config(with(opt(), "word_embed_proj_dim", nullptr).dump()).embedding_size, 64);
}

TEST(OptConfig, RefusesOtherModelsAndWhatItCannotCompute) {
  EXPECT_THAT(Refused::unsupported(with(opt(), "model_type", "llama")),
              HasSubstr("model type 'llama' (OPTForCausalLM) is not opt with OPTForCausalLM; use another"));
  EXPECT_THAT(Refused::unsupported(with(opt(), "architectures", {"OPTForQuestionAnswering"})),
              HasSubstr("ForQuestionAnswering"));
  EXPECT_THAT(Refused::unsupported(with(opt(), "activation_function", "quick_gelu")),
              HasSubstr("activation_function 'quick_gelu' is not supported; expected one of relu, gelu,"));
}

TEST(OptConfig, HostileValuesAreRefusedWithKeyValueAndExpectation) {
  Refused::expect_of_sizes(opt(), {"vocab_size", "hidden_size", "ffn_dim", "num_hidden_layers", "num_attention_heads",
                                   "max_position_embeddings", "word_embed_proj_dim"});
  json config = opt();
  config.erase("ffn_dim");
  EXPECT_THAT(Refused::invalid(config), HasSubstr("ffn_dim is missing; expected an integer from 1"));
  EXPECT_THAT(Refused::invalid(with(opt(), "num_attention_heads", 6)), HasSubstr("a divisor of hidden_size 64"));
  EXPECT_THAT(Refused::invalid(with(opt(), "do_layer_norm_before", "yes")), HasSubstr("expected true or false"));
  EXPECT_THAT(Refused::invalid(with(opt(), "enable_bias", 1)), HasSubstr("enable_bias is 1"));
  for (const char* text : {"", "[]", "{", "null"}) Refused::of_text(text, MORTISE_INVALID_ARGUMENT);
}

TEST(OptConfig, NoConfigurationIsComputedOtherwiseThanItSays) {
  test::expect_nothing_is_misread<parse_config>({"opt"});
}

}  // namespace
}  // namespace mortise::opt
