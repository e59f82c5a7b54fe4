// The plugin through its entry function, on naive parts: which tensors it asks for, and what it says when one is not
// there. What it computes is common/golden_test.cpp's.
// Covers: plugins/models/common/position_decoder
#include <gmock/gmock.h>

#include "plugins/models/common/model_instance.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

const mortise_model_table& table() {
  return *static_cast<const mortise_model_table*>(model_under_test().table);
}

std::string load_failure(Instance& instance, Shelf& shelf) {
  const mortise_weight_reader reader = shelf.reader();
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_DATA_LOSS);
  return instance.error.message;
}

TEST(Gpt2, TellsItsDimensionsFromTheConfigurationAlone) {
  const Instance instance(config_of("gpt2_variant"));
  auto dims = sized<mortise_model_dims>();
  ASSERT_EQ(table().dims(instance.get(), &dims, nullptr), MORTISE_OK);
  EXPECT_EQ(dims.num_layers, 3);
  EXPECT_EQ(dims.hidden_size, 64);
  EXPECT_EQ(dims.num_heads, 4);
  EXPECT_EQ(dims.head_dim, 16);
  EXPECT_EQ(dims.vocab_size, 128);
  EXPECT_EQ(dims.max_model_len, 512);
  EXPECT_EQ(dims.attention_scale, 1.0f);
}

TEST(Gpt2, MissingAndMisshapenTensorsAreNamedWithWhatWasExpected) {
  Instance instance(config_of("gpt2"));
  Shelf shelf;
  EXPECT_THAT(load_failure(instance, shelf),
              HasSubstr("transformer.wte.weight: the checkpoint has no such tensor; expected shape [112, 48]"));
  shelf.shapes["wte.weight"] = {112, 48};  // without the prefix
  shelf.shapes["wpe.weight"] = {512, 48};
  shelf.shapes["h.0.ln_1.weight"] = shelf.shapes["h.0.ln_1.bias"] = {48};
  shelf.shapes["h.0.attn.c_attn.weight"] = {144, 48};  // rows and columns as torch's Linear has them
  EXPECT_THAT(load_failure(instance, shelf),
              HasSubstr("h.0.attn.c_attn.weight: found shape [144, 48], expected [48, 144] according to config.json"));
  EXPECT_EQ(naive_log().num_weights, 0);  // the weights that were prepared before are freed
}

TEST(Gpt2, AnUntiedModelWithoutAHeadIsRefused) {
  nlohmann::json config = nlohmann::json::parse(config_of("gpt2"));
  config["tie_word_embeddings"] = false;
  Instance instance(config.dump());
  Shelf shelf;
  const Checkpoint checkpoint = Checkpoint::open(read_golden_model("gpt2").folder);
  for (const auto& [name, tensor] : checkpoint.tensors()) shelf.shapes[name] = tensor.shape;
  const std::string failure = load_failure(instance, shelf);
  EXPECT_THAT(failure, HasSubstr("lm_head.weight: the checkpoint has no such tensor"));
  EXPECT_THAT(failure, HasSubstr("tie_word_embeddings"));
}

TEST(Gpt2, GivesBackEverything) {
  {
    StackOptions options;
    options.dtype = "f32";
    Stack stack(naive_parts(), read_golden_model("gpt2").folder, options);
    EXPECT_GT(naive_log().num_weights, 0);
  }
  EXPECT_EQ(naive_log().num_weights, 0);
  EXPECT_EQ(naive_log().num_allocations, 0);
}

}  // namespace
}  // namespace mortise::test
