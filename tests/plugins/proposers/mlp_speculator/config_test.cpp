#include "proposers/mlp_speculator/config.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "mortise/plugin.hpp"

namespace mortise::mlp_speculator {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json published() {
  return json::parse(R"({"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator",
    "emb_dim": 64, "inner_dim": 48, "n_predict": 3, "vocab_size": 96, "tie_weights": true, "scale_input": true,
    "top_k_tokens_per_head": [4, 3, 2], "dtype": "float16"})");
}

json with(const char* key, const json& value) {
  json config = published();
  config[key] = value;
  return config;
}

std::string refusal(const json& config) {
  try {
    parse_config(config.dump());
  } catch (const Failure& failure) {
    return failure.message;
  }
  ADD_FAILURE() << "accepted: " << config;
  return "";
}

TEST(MlpSpeculatorConfig, ReadsWhatPublishedCheckpointsSay) {
  const Config config = parse_config(published().dump());
  EXPECT_EQ(config.num_stages, 3);
  EXPECT_EQ(config.emb_dim, 64);
  EXPECT_EQ(config.inner_dim, 48);
  EXPECT_EQ(config.vocab_size, 96);
  EXPECT_TRUE(config.tie_weights && config.scale_input);
}

TEST(MlpSpeculatorConfig, InnerDimZeroOrAbsentIsEmbDim) {
  EXPECT_EQ(parse_config(with("inner_dim", 0).dump()).inner_dim, 64);
  EXPECT_EQ(parse_config(with("inner_dim", nullptr).dump()).inner_dim, 64);
  EXPECT_FALSE(parse_config(with("tie_weights", nullptr).dump()).tie_weights);
}

TEST(MlpSpeculatorConfig, AfterAllStagesTheFirstStateIsHalf) {
  const Config config = parse_config(published().dump());
  EXPECT_NEAR(std::pow(config.state_weight(), 2 * config.num_stages), 0.5, 1e-12);
  const double emb = config.emb_weight() / std::sqrt(config.inner_dim / 2.0);
  EXPECT_NEAR(emb * emb + config.state_weight() * config.state_weight(), 1.0, 1e-12);
}

TEST(MlpSpeculatorConfig, RefusesOtherModelsAndHostileValues) {
  EXPECT_THAT(refusal(with("model_type", "llama")), HasSubstr("model type 'llama' is not mlp_speculator"));
  EXPECT_THAT(refusal(with("tie_weights", 1)), HasSubstr("tie_weights is 1; expected true or false"));
  for (const char* key : {"emb_dim", "inner_dim", "n_predict", "vocab_size"}) {
    for (const json& value : {json(-1), json(1ll << 40), json(2.5), json("3")}) {
      EXPECT_THAT(refusal(with(key, value)), HasSubstr(std::string(key) + " is " + value.dump() + "; expected"));
    }
  }
  EXPECT_THAT(refusal(with("n_predict", 0)), HasSubstr("n_predict is 0; expected an integer from 1 to 64"));
  EXPECT_THAT(refusal(with("emb_dim", nullptr)), HasSubstr("emb_dim is missing"));
}

}  // namespace
}  // namespace mortise::mlp_speculator
