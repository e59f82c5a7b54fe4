// The plugin through its entry function, on naive parts: what it asks of a device, and its failures. What it computes
// is common/golden_test.cpp's.
// Covers: plugins/models/common/model_options plugins/models/llama/{forward,plugin,weights}
#include <gmock/gmock.h>

#include <cmath>

#include "parity/stack.hpp"
#include "plugins/models/common/model_instance.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

const mortise_component& llama() {
  return *mortise_plugin_entry_v0(nullptr)->components[0];
}
const mortise_model_table& table() {
  return *static_cast<const mortise_model_table*>(llama().table);
}
StackOptions f32() {
  StackOptions options;
  options.dtype = "f32";
  return options;
}

TEST(Llama, TellsItsDimensionsFromTheConfigurationAlone) {
  Instance instance(config_of("mistral"), {{"max_model_len", 300}});
  ASSERT_EQ(instance.status, MORTISE_OK);
  auto dims = sized<mortise_model_dims>();
  ASSERT_EQ(table().dims(instance.get(), &dims, nullptr), MORTISE_OK);
  EXPECT_EQ(dims.num_layers, 2);
  EXPECT_EQ(dims.hidden_size, 64);
  EXPECT_EQ(dims.num_heads, 2);
  EXPECT_EQ(dims.num_kv_heads, 1);
  EXPECT_EQ(dims.head_dim, 48);
  EXPECT_EQ(dims.vocab_size, 96);
  EXPECT_EQ(dims.max_model_len, 300);
  EXPECT_EQ(dims.dtype, MORTISE_F32);
  EXPECT_EQ(dims.attention_scale, static_cast<float>(1.0 / std::sqrt(48.0)));
  ASSERT_NE(dims.sliding_windows, nullptr);
  EXPECT_EQ(dims.sliding_windows[1], 16);
}

TEST(Llama, ComputesInTheCheckpointsTypeUnlessTold) {
  const auto dtype_of = [](const std::string& checkpoint, const std::string& option) {
    nlohmann::json config = nlohmann::json::parse(config_of("llama_mha"));
    config["dtype"] = checkpoint;
    Instance instance(config.dump(), {{"dtype", option}});
    auto dims = sized<mortise_model_dims>();
    table().dims(instance.get(), &dims, nullptr);
    return dims.dtype;
  };
  EXPECT_EQ(dtype_of("bfloat16", "auto"), MORTISE_BF16);
  EXPECT_EQ(dtype_of("float16", "auto"), MORTISE_F32);
  EXPECT_EQ(dtype_of("float32", "auto"), MORTISE_F32);
  EXPECT_EQ(dtype_of("float32", "bf16"), MORTISE_BF16);
  EXPECT_EQ(dtype_of("bfloat16", "f32"), MORTISE_F32);
}

// What an instance tells the host while it is created.
std::string told_by(const nlohmann::json& config, const nlohmann::json& options) {
  struct Log : mortise_host {
    std::string text;
  } log;
  log.log = [](const mortise_host* host, int32_t, mortise_string_view message) {
    const_cast<Log*>(static_cast<const Log*>(host))->text += view(message);
  };
  const Instance instance(config.dump(), options, /*world=*/1, &log);
  return log.text;
}

TEST(Llama, TellsWhenWeightsAreRounded) {
  const auto told = [](const std::string& checkpoint, const std::string& option) {
    nlohmann::json config = nlohmann::json::parse(config_of("llama_mha"));
    config["dtype"] = checkpoint;
    return told_by(config, {{"dtype", option}});
  };
  EXPECT_THAT(told("float16", "bf16"), HasSubstr("the checkpoint is in f16, and is computed in bf16"));
  EXPECT_THAT(told("float32", "bf16"), HasSubstr("rounded from 24 significant bits to 8"));
  EXPECT_EQ(told("float16", "auto"), "");
  EXPECT_EQ(told("bfloat16", "bf16"), "");
}

TEST(Llama, BuffersThatDoNotFitNameTheOptionThatLowersThem) {
  Instance instance(config_of("llama_mha"));
  auto args = sized<mortise_activate_args>();
  args.max_batched_tokens = 64;
  args.max_model_len = 64;
  naive_log().has_memory = false;
  const mortise_status status = model_under_test().activate(instance.model, &args, &instance.error);
  naive_log().has_memory = true;
  EXPECT_EQ(status, MORTISE_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(instance.error.message,
               "allocate: no memory: buffers of a step grow with the scheduler's max_batched_tokens; lower it");
  EXPECT_STREQ(instance.error.where, "device");
}

TEST(Llama, AMaximumLengthBeyondTheCheckpointsIsRefused) {
  Instance instance(config_of("llama_mha"), {{"max_model_len", 513}});
  EXPECT_EQ(instance.status, MORTISE_INVALID_ARGUMENT);
  EXPECT_STREQ(instance.error.where, "max_model_len");
  EXPECT_THAT(instance.error.message, HasSubstr("513 is more than the checkpoint's max_position_embeddings 512"));
}

TEST(Llama, ARankHasItsShareOfTheHeads) {
  const auto heads_of_rank = [](int32_t world) {
    Instance instance(config_of("llama_mha"), {}, world);
    auto dims = sized<mortise_model_dims>();
    EXPECT_EQ(table().dims(instance.get(), &dims, &instance.error), MORTISE_OK) << instance.error.message;
    return std::pair(dims.num_heads, dims.num_kv_heads);
  };
  const auto [heads, kv_heads] = heads_of_rank(1);
  EXPECT_EQ(heads_of_rank(2), std::pair(heads / 2, kv_heads / 2));
  const Instance too_many(config_of("llama_mha"), {}, /*world=*/64);
  EXPECT_EQ(too_many.status, MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(too_many.error.message, HasSubstr("64 ranks cannot divide num_attention_heads"));
}

TEST(Llama, ADeviceWithoutTheTypeIsRefusedAtLoad) {
  Instance instance(config_of("llama_mha"), {{"dtype", "bf16"}});
  Shelf shelf;
  const mortise_weight_reader reader = shelf.reader();
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_FAILED_PRECONDITION);
  EXPECT_THAT(instance.error.message, HasSubstr("cannot compute in bf16; set dtype = \"f32\""));
}

TEST(Llama, TheDimensionsSayHowTheMatricesAreKept) {
  const auto format_of = [](const nlohmann::json& options) {
    Instance instance(config_of("llama_mha"), options);
    auto dims = sized<mortise_model_dims>();
    EXPECT_EQ(table().dims(instance.get(), &dims, &instance.error), MORTISE_OK) << instance.error.message;
    return std::pair(dims.weight_bits, dims.weight_group_size);
  };
  EXPECT_EQ(format_of({}), std::pair(0, 0));
  EXPECT_EQ(format_of({{"weights", "auto"}}), std::pair(0, 0));
  EXPECT_EQ(format_of({{"weights", "int8"}}), std::pair(8, 0));
  EXPECT_EQ(format_of({{"weights", "int4"}}), std::pair(4, 64));
  EXPECT_EQ(format_of({{"weights", "int4"}, {"group_size", 128}}), std::pair(4, 128));
}

TEST(Llama, ADeviceWithoutQuantizedProductsIsRefusedAtLoad) {
  Instance instance(config_of("llama_mha"), {{"weights", "int8"}});
  Shelf shelf;
  const mortise_weight_reader reader = shelf.reader();
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_FAILED_PRECONDITION);
  EXPECT_THAT(instance.error.message, HasSubstr("the device cannot multiply by quantised weights"));
}

// The integers of a GGUF file are there as floats, too.
TEST(Llama, ADeviceWithoutBlocksOf32GetsTheFloatsOfAGgufFileAndTellsSo) {
  nlohmann::json config = nlohmann::json::parse(config_of("llama_mha"));
  config["quantization_config"] = {{"quant_method", "gguf"}, {"bits", 4}, {"group_size", 32}, {"type", "int-block32"}};
  EXPECT_THAT(told_by(config, {{"weights", "auto"}}), HasSubstr("does not multiply by the integers of this GGUF file"));
  Instance instance(config.dump(), {{"weights", "auto"}});
  auto dims = sized<mortise_model_dims>();
  EXPECT_EQ(table().dims(instance.get(), &dims, &instance.error), MORTISE_OK);
  EXPECT_EQ(dims.weight_bits, 0);
  Shelf shelf;
  shelf.shapes["model.embed_tokens.weight"] = {128, 64};
  mortise_weight_reader reader = shelf.reader();
  reader.get_quantized = [](void*, mortise_string_view, mortise_quantized_matrix*, mortise_error*) {
    ADD_FAILURE() << "the integers were asked for";
    return static_cast<mortise_status>(MORTISE_NOT_FOUND);
  };
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_DATA_LOSS);  // most tensors are missing
}

TEST(Llama, AQuantizedMatrixOfAnotherShapeIsNamed) {
  Instance instance(config_of("llama_mha"));
  Shelf shelf;
  shelf.shapes["model.embed_tokens.weight"] = {128, 64};
  shelf.shapes["model.layers.0.input_layernorm.weight"] = {64};
  mortise_weight_reader reader = shelf.reader();
  reader.get_quantized = [](void*, mortise_string_view, mortise_quantized_matrix* matrix, mortise_error*) {
    matrix->n = 64;
    matrix->k = 72;
    return static_cast<mortise_status>(MORTISE_OK);
  };
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_DATA_LOSS);
  EXPECT_THAT(instance.error.message, HasSubstr("q_proj.weight: found quantised shape [64, 72], expected [64, 64]"));
}

TEST(Llama, AQuantizedCheckpointIsNotQuantizedAgain) {
  nlohmann::json config = nlohmann::json::parse(config_of("llama_mha"));
  config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
  Instance instance(config.dump(), {{"weights", "int8"}});
  EXPECT_EQ(instance.status, MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(instance.error.message, HasSubstr("\"int8\" for a checkpoint that is quantised already"));
}

TEST(Llama, SupportsSaysWhyNot) {
  auto query = sized<mortise_query>();
  mortise_error reason = make_error();
  EXPECT_EQ(llama().supports(&query, &reason), MORTISE_OK);  // an empty query is no reason to refuse
  const std::string gpt2 = R"({"model_type": "gpt2"})";
  query.model_config = view(std::string_view(gpt2));
  EXPECT_EQ(llama().supports(&query, &reason), MORTISE_UNIMPLEMENTED);
  EXPECT_THAT(reason.message, HasSubstr("model type 'gpt2'"));
}

TEST(Llama, MissingAndMisshapenTensorsAreNamedWithWhatWasExpected) {
  Instance instance(config_of("llama_mha"));
  Shelf shelf;
  const mortise_weight_reader reader = shelf.reader();
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_DATA_LOSS);
  EXPECT_THAT(instance.error.message,
              HasSubstr("model.embed_tokens.weight: the checkpoint has no such tensor; expected shape [128, 64]"));
  shelf.shapes["model.embed_tokens.weight"] = {128, 64};
  shelf.shapes["model.layers.0.input_layernorm.weight"] = {64, 1};
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_DATA_LOSS);
  EXPECT_THAT(instance.error.message,
              HasSubstr("model.layers.0.input_layernorm.weight: found shape [64, 1], expected [64]"));
  shelf.shapes["model.layers.0.input_layernorm.weight"] = {64};
  shelf.dtype = MORTISE_I8;
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_DATA_LOSS);
  EXPECT_THAT(instance.error.message, HasSubstr("model.embed_tokens.weight: its type is not bf16, f16 or f32"));
  EXPECT_EQ(naive_log().num_weights, 0);  // the weights that were prepared before are freed
}

TEST(Llama, AnUntiedModelWithoutAHeadIsRefused) {
  const GoldenModel tied = read_golden_model("llama_tied");
  const Checkpoint checkpoint = Checkpoint::open(tied.folder);
  nlohmann::json config = nlohmann::json::parse(checkpoint.config().json);
  config["tie_word_embeddings"] = false;
  Instance instance(config.dump());
  Shelf shelf;
  for (const auto& [name, tensor] : checkpoint.tensors()) shelf.shapes[name] = tensor.shape;
  const mortise_weight_reader reader = shelf.reader();
  EXPECT_EQ(table().load(instance.get(), &reader, &instance.error), MORTISE_DATA_LOSS);
  EXPECT_THAT(instance.error.message, HasSubstr("lm_head.weight: the checkpoint has no such tensor"));
  EXPECT_THAT(instance.error.message, HasSubstr("tie_word_embeddings"));
}

TEST(Llama, ATiedModelWithAnotherHeadIsRefused) {
  const Checkpoint checkpoint = Checkpoint::open(read_golden_model("llama_tied").folder);
  Instance instance(checkpoint.config().json);
  Shelf shelf;
  for (const auto& [name, tensor] : checkpoint.tensors()) shelf.shapes[name] = tensor.shape;
  shelf.shapes["lm_head.weight"] = shelf.shapes["model.embed_tokens.weight"];
  const mortise_weight_reader same = shelf.reader();
  EXPECT_EQ(table().load(instance.get(), &same, &instance.error), MORTISE_OK) << instance.error.message;

  Instance other(checkpoint.config().json);
  const std::vector<float> head(shelf.zeros.size(), 1.0f);
  shelf.data["lm_head.weight"] = head.data();
  const mortise_weight_reader different = shelf.reader();
  EXPECT_EQ(table().load(other.get(), &different, &other.error), MORTISE_DATA_LOSS);
  EXPECT_THAT(other.error.message, HasSubstr("lm_head.weight differs from model.embed_tokens.weight, but "
                                             "by config.json they are one (tie_word_embeddings"));
}

TEST(Llama, OperationsDependOnNothingButTheConfiguration) {
  const GoldenModel golden = read_golden_model("llama_gqa4");
  Stack stack(naive_parts(), golden.folder, f32());
  const auto prefill = operations_of([&] { stack.step({{1, golden.prompt}}); });
  EXPECT_EQ(operations_of([&] { stack.step({{1, {3}}, {2, {4, 5}}}); }), prefill);
  EXPECT_EQ(std::count(prefill.begin(), prefill.end(), "linear"), 4 * 2 + 1);  // qkv, o, gate_up, down; the head
  EXPECT_EQ(std::count(prefill.begin(), prefill.end(), "rms_norm"), 2 * 2 + 1);
}

TEST(Llama, GivesBackEverythingAndRefusesABatchOverItsLimit) {
  const GoldenModel golden = read_golden_model("qwen3");
  {
    StackOptions options = f32();
    options.max_batched_tokens = 8;
    Stack stack(naive_parts(), golden.folder, options);
    EXPECT_THROW(stack.step({{1, std::vector<int32_t>(9, 3)}}), std::runtime_error);
    EXPECT_GT(naive_log().num_weights, 0);
  }
  EXPECT_EQ(naive_log().num_weights, 0);
  EXPECT_EQ(naive_log().num_allocations, 0);
}

TEST(Llama, HeadComputesAnyRangeOfTheVocabulary) {
  const GoldenModel golden = read_golden_model("llama_mqa");  // 97 tokens: the last slice is a short one
  Stack stack(naive_parts(), golden.folder, f32());
  const Row whole = stack.step({{1, {3}}})[0][0];
  const Row sliced = stack.step_sliced({{2, {3}}}, /*slice=*/64)[0][0];
  EXPECT_EQ(sliced, whole);
}

}  // namespace
}  // namespace mortise::test
