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

mortise_model_dims dims_of(const Instance& instance) {
  auto dims = sized<mortise_model_dims>();
  EXPECT_EQ(table().dims(instance.get(), &dims, nullptr), MORTISE_OK);
  return dims;
}

std::string load_failure(Instance& instance, Shelf& shelf) {
  const mortise_weight_reader reader = shelf.reader();
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_DATA_LOSS);
  return instance.error.message;
}

TEST(Opt, TellsItsDimensionsFromTheConfigurationAlone) {
  const Instance instance(config_of("opt"), {{"max_model_len", 300}});
  const mortise_model_dims dims = dims_of(instance);
  EXPECT_EQ(dims.num_layers, 2);
  EXPECT_EQ(dims.hidden_size, 64);
  EXPECT_EQ(dims.num_heads, 4);
  EXPECT_EQ(dims.num_kv_heads, 4);
  EXPECT_EQ(dims.head_dim, 16);
  EXPECT_EQ(dims.vocab_size, 97);
  EXPECT_EQ(dims.max_model_len, 300);
  EXPECT_EQ(dims.dtype, MORTISE_F32);
  EXPECT_EQ(dims.attention_scale, 0.25f);
}

TEST(Opt, HiddenRowsAreAsWideAsWhatTheHeadReads) {
  EXPECT_EQ(dims_of(Instance(config_of("opt_projected"))).hidden_size, 40);  // 64: before project_out
}

TEST(Opt, LongestSequencesAreThoseThatHavePositions) {
  EXPECT_EQ(dims_of(Instance(config_of("opt"))).max_model_len, 512);  // 514: the two rows before position 0 as well
  const Instance instance(config_of("opt"), {{"max_model_len", 513}});
  EXPECT_EQ(instance.status, MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(instance.error.message, HasSubstr("513 is more than the checkpoint's max_position_embeddings 512"));
}

TEST(Opt, SaysHowItsMatricesAreKept) {
  const mortise_model_dims dims = dims_of(Instance(config_of("opt"), {{"weights", "int4"}, {"group_size", 32}}));
  EXPECT_EQ(dims.weight_bits, 4);
  EXPECT_EQ(dims.weight_group_size, 32);
}

TEST(Opt, RanksThatDoNotDivideTheHeadsAreRefused) {
  const Instance instance(config_of("opt"), {}, /*world=*/64);
  EXPECT_EQ(instance.status, MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(instance.error.message, HasSubstr("64 ranks cannot divide the number of heads"));
}

TEST(Opt, MissingAndMisshapenTensorsAreNamedWithWhatWasExpected) {
  Instance instance(config_of("opt"));
  Shelf shelf;
  EXPECT_THAT(
      load_failure(instance, shelf),
      HasSubstr("model.decoder.embed_tokens.weight: the checkpoint has no such tensor; expected shape [97, 64]"));
  shelf.shapes["decoder.embed_tokens.weight"] = {97, 64};  // the other prefix
  shelf.shapes["decoder.embed_positions.weight"] = {512, 64};
  EXPECT_THAT(
      load_failure(instance, shelf),
      HasSubstr("decoder.embed_positions.weight: found shape [512, 64], expected [514, 64] according to config.json"));
  shelf.shapes["decoder.embed_positions.weight"] = {514, 64};
  EXPECT_THAT(load_failure(instance, shelf), HasSubstr("decoder.layers.0.self_attn_layer_norm.weight: the checkpoint"));
  EXPECT_EQ(naive_log().num_weights, 0);  // the weights that were prepared before are freed
}

TEST(Opt, OperationsDependOnNothingButTheConfiguration) {
  const GoldenModel golden = read_golden_model("opt_projected");
  StackOptions options;
  options.dtype = "f32";
  Stack stack(naive_parts(), golden.folder, options);
  const auto prefill = operations_of([&] { stack.step({{1, golden.prompt}}); });
  EXPECT_EQ(operations_of([&] { stack.step({{1, {3}}, {2, {4, 5}}}); }), prefill);
  EXPECT_EQ(std::count(prefill.begin(), prefill.end(), "linear"), 4 * 3 + 3);  // and project_in, project_out, the head
  EXPECT_EQ(std::count(prefill.begin(), prefill.end(), "layer_norm"), 2 * 3);  // none at the end
}

TEST(Opt, GivesBackEverythingAndRefusesABatchOverItsLimit) {
  {
    StackOptions options;
    options.dtype = "f32";
    options.max_batched_tokens = 8;
    Stack stack(naive_parts(), read_golden_model("opt_projected").folder, options);
    EXPECT_THROW(stack.step({{1, std::vector<int32_t>(9, 3)}}), std::runtime_error);
    EXPECT_GT(naive_log().num_weights, 0);
  }
  EXPECT_EQ(naive_log().num_weights, 0);
  EXPECT_EQ(naive_log().num_allocations, 0);
}

}  // namespace
}  // namespace mortise::test
