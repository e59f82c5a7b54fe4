// GGUF models as checkpoints: each golden model, written as GGUF, is the checkpoint that it was written from; and what
// would be left out is refused.
// Covers: runtime/checkpoint/gguf/{translation,names,parts,floats,storage}
#include "checkpoint/gguf/translation.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "../folder_test.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/gguf/floats.hpp"
#include "checkpoint/half.hpp"
#include "golden/write_gguf.hpp"

namespace mortise::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kGoldenModels = std::string(MORTISE_SOURCE_DIR) + "/tests/golden/models";

class GgufModels : public FolderTest {
 protected:
  std::filesystem::path write(const GgufWriter& writer, const char* name = "x.gguf") const {
    return FolderTest::write(name, writer.bytes());
  }
  Checkpoint open(const GgufWriter& writer) const { return Checkpoint::open(write(writer)); }
  std::string refusal(const GgufWriter& writer) const {
    return error_of([&] { open(writer); });
  }
};

// The numbers of a tensor as floats, row by row, whatever its file has.
std::vector<float> numbers_of(const TensorView& given) {
  const GgufFloats floats = given.gguf ? gguf_floats(given, Dtype::kF32) : GgufFloats{nullptr, given, false};
  const TensorView& view = floats.view;
  const std::size_t size = dtype_size(view.dtype), count = view.bytes.size() / size;
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t columns = view.shape.size() == 2 ? static_cast<std::size_t>(view.shape[1]) : 1;
    const std::size_t rows = count / columns;
    const std::size_t at = floats.transposed ? i % columns * rows + i / columns : i;
    std::uint32_t bits = 0;
    std::memcpy(&bits, view.bytes.data() + at * size, size);
    const auto half = static_cast<std::uint16_t>(bits);
    out[i] = view.dtype == Dtype::kF32   ? std::bit_cast<float>(bits)
             : view.dtype == Dtype::kF16 ? half_to_float(half)
                                         : std::bit_cast<float>(std::uint32_t{half} << 16);
  }
  return out;
}

class EachGoldenModel : public GgufModels, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, EachGoldenModel,
                         testing::Values("llama_gqa4", "llama_bias", "llama_f16", "llama_gqa8", "llama_linear",
                                         "llama_mha", "llama_mqa", "llama_tied", "mistral", "qwen2", "qwen2_yarn",
                                         "qwen3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

// gpt2's golden names its tensors without a prefix; GGUF models get the usual one.
std::string usual_name(const std::string& name) {
  const bool plain = name.starts_with("h.") || name.starts_with("w") || name.starts_with("ln_f");
  return plain ? "transformer." + name : name;
}

TEST_P(EachGoldenModel, HasTheTensorsOfItsFolder) {
  const auto folder = Checkpoint::open(kGoldenModels / GetParam());
  const auto file = open(gguf_of_checkpoint(kGoldenModels / GetParam()));
  ASSERT_EQ(file.tensors().size(), folder.tensors().size());
  for (const auto& [name, view] : folder.tensors()) {
    const TensorView* found = file.find(usual_name(name));
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->shape, view.shape) << name;
    EXPECT_EQ(numbers_of(*found), numbers_of(view)) << name;
  }
}

TEST_P(EachGoldenModel, HasTheConfigurationOfItsFolder) {
  const json folder = json::parse(Checkpoint::open(kGoldenModels / GetParam()).config().json);
  const json file = json::parse(open(gguf_of_checkpoint(kGoldenModels / GetParam())).config().json);
  for (const char* key :
       {"architectures", "model_type", "dtype", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings", "attention_bias",
        "mlp_bias", "sliding_window", "n_layer", "n_embd", "n_head", "n_positions"}) {
    const bool is_window = key == std::string("sliding_window");
    if (!file.contains(key) && (is_window || !folder.contains(key) || folder[key] == false)) continue;
    if (!folder.contains(key) || folder[key].is_null()) continue;  // a default of transformers
    EXPECT_EQ(file[key], folder[key]) << key;
  }
  for (const char* key : {"rms_norm_eps", "layer_norm_epsilon"}) {
    if (!folder.contains(key)) continue;
    EXPECT_EQ(file[key].get<float>(), folder[key].get<float>()) << key;
  }
  EXPECT_EQ(file["tie_word_embeddings"], folder.value("tie_word_embeddings", folder["model_type"] == "gpt2"));
  if (!folder.contains("rope_parameters")) return;
  for (const char* key : {"rope_type", "factor", "original_max_position_embeddings", "rope_theta"}) {
    if (!folder["rope_parameters"].contains(key)) continue;
    EXPECT_EQ(file["rope_parameters"][key], folder["rope_parameters"][key]) << key;
  }
}

GgufWriter tied_llama() {
  return gguf_of_checkpoint(kGoldenModels / "llama_tied");
}

std::string float_bytes(std::size_t count, float value) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out.append(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

TEST_F(GgufModels, KeysThatChangeResultsAndAreNotServedAreRefusedByName) {
  const auto with = [&](auto&& change) {
    GgufWriter writer = tied_llama();
    change(writer);
    return refusal(writer);
  };
  EXPECT_THAT(with([](auto& w) { w.number("llama.logit_scale", 2); }),
              AllOf(HasSubstr("key 'llama.logit_scale' at byte"), HasSubstr("is 2; this key is not served")));
  EXPECT_THAT(with([](auto& w) { w.whole("llama.expert_count", 8); }), HasSubstr("mixtures of experts are not served"));
  EXPECT_THAT(with([](auto& w) { w.whole("llama.rope.dimension_count", 4); }), HasSubstr("the size of a head"));
  EXPECT_THAT(with([](auto& w) { w.text("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("is 'longrope'; expected none, linear or yarn"));
  EXPECT_THAT(with([](auto& w) { w.number("llama.rope.scaling.attn_factor", 1.5f); }), HasSubstr("only 1 is served"));
  EXPECT_THAT(with([](auto& w) { w.truth("llama.attention.causal", false); }), HasSubstr("encoders are not served"));
  EXPECT_THAT(with([](auto& w) { w.whole("llama.vocab_size", 3); }), HasSubstr("'token_embd.weight' has"));
  EXPECT_THAT(with([](auto& w) { w.whole("tokenizer.ggml.eot_token_id", 1 << 20); }), HasSubstr("the model has"));
  EXPECT_EQ(
      with([](auto& w) { w.whole("llama.expert_count", 0).text("general.name", "x").whole("general.file_type", 1); }),
      "");
}

TEST_F(GgufModels, OtherArchitecturesAndPartsOfModelsAreRefusedByName) {
  EXPECT_THAT(refusal(GgufWriter().text("general.architecture", "gemma3")),
              HasSubstr("is 'gemma3'; served are llama (with Mistral), qwen2, qwen3, gpt2"));
  EXPECT_THAT(refusal(GgufWriter().text("general.type", "adapter").text("general.architecture", "llama")),
              HasSubstr("adapters, projectors and other parts"));
  EXPECT_THAT(refusal(GgufWriter()), HasSubstr("has no key 'general.architecture'"));
  EXPECT_THAT(refusal(GgufWriter().text("general.architecture", "llama")), HasSubstr("has no key 'llama.block_count'"));
}

TEST_F(GgufModels, NoTensorIsLeftOutSilently) {
  for (const char* name :
       {"output_norm.bias", "blk.0.attn_q_norm.weight", "blk.9.attn_norm.weight", "blk.1.attn_q.bias",
        "rope_factors_long.weight", "blk.0.ffn_gate_inp.weight", "output.bias"}) {
    GgufWriter writer = tied_llama();
    writer.tensor(name, 0, {16}, std::string(64, '\0'));
    EXPECT_THAT(refusal(writer), AllOf(HasSubstr(std::string("tensor '") + name + "' at byte"),
                                       HasSubstr("the results would be others")))
        << name;
  }
}

TEST_F(GgufModels, AMissingTensorIsNamedAsInTheFile) {
  GgufWriter writer = tied_llama();
  writer.tensor("blk.0.attn_q.bias", 0, {16}, std::string(64, '\0'));
  EXPECT_THAT(refusal(writer), AllOf(HasSubstr("the tensor 'blk.0.attn_k.bias' is missing, but others call for it"),
                                     HasSubstr("the conversion was not complete")));
}

TEST_F(GgufModels, BiasesThatTransformersHasNotInTheFamilyAreRefused) {
  for (const char* name : {"blk.0.ffn_up.bias", "blk.0.attn_output.bias"}) {
    GgufWriter writer = gguf_of_checkpoint(kGoldenModels / "qwen2");
    writer.tensor(name, 0, {16}, std::string(64, '\0'));
    EXPECT_THAT(refusal(writer), HasSubstr("is a bias that qwen2 has not in transformers"));
  }
}

// Llama with biases on q, k and v alone is what transformers calls Qwen2.
TEST_F(GgufModels, BiasesOfTheFirstLayerDecideTheFamily) {
  const auto with_biases = json::parse(open(gguf_of_checkpoint(kGoldenModels / "llama_bias")).config().json);
  EXPECT_EQ(with_biases["attention_bias"], true);
  EXPECT_EQ(with_biases["mlp_bias"], true);
}

TEST_F(GgufModels, RopeFactorsBecomeTheConfiguration) {
  const json config = json::parse(tied_llama().bytes().empty() ? "{}" : open(tied_llama()).config().json);
  const auto half = config["head_dim"].get<std::size_t>() / 2;
  const auto with = [&](const std::string& bytes, std::int64_t count) {
    GgufWriter writer = tied_llama();
    return writer.tensor("rope_freqs.weight", 0, {count}, bytes);
  };
  const auto count = static_cast<std::int64_t>(half);
  const json rope = json::parse(open(with(float_bytes(half, 8.0f), count)).config().json)["rope_parameters"];
  EXPECT_EQ(rope["rope_type"], "factors");
  EXPECT_EQ(rope["factors"], json(std::vector<float>(half, 8.0f)));
  EXPECT_THAT(refusal(with(float_bytes(half, 0.5f), count)), HasSubstr("factor 0 is 0.5; expected 1 to 1000000"));
  EXPECT_THAT(refusal(with(float_bytes(half, NAN), count)), HasSubstr("expected 1 to 1000000"));
  EXPECT_THAT(refusal(with(float_bytes(half + 1, 1), count + 1)), HasSubstr("a factor for each pair of a head"));
}

TEST_F(GgufModels, EndTokensAreThoseOfAllThreeKeys) {
  GgufWriter writer = gguf_of_checkpoint(kGoldenModels / "gpt2");
  writer.whole("tokenizer.ggml.eot_token_id", 5)
      .whole("tokenizer.ggml.eom_token_id", 5)
      .whole("tokenizer.ggml.bos_token_id", 3);
  const auto checkpoint = open(writer);
  EXPECT_THAT(checkpoint.generation_config().eos_token_ids, testing::Contains(5));
  EXPECT_EQ(checkpoint.generation_config().bos_token_id, 3);
}

// A tied Llama whose matrices with `which` in their name are of another type.
class QuantizedModels : public GgufModels {
 protected:
  Checkpoint quantized(GgufType type, const char* which) const {
    const GgufTypeInfo& info = info_of(type);
    return open(tied_llama().retype(which, static_cast<std::uint32_t>(type), info.block_elements, info.block_bytes));
  }
};

// The tied embedding is read as floats, so its integers do not make the checkpoint a quantised one.
TEST_F(QuantizedModels, IntegersOfMostLayersAreTheFormat) {
  const auto integers = quantized(GgufType::kQ8_0, "ffn_");
  ASSERT_TRUE(integers.config().quantization.has_value());
  EXPECT_EQ(integers.config().quantization->bits, 8);
  EXPECT_EQ(integers.config().quantization->type, QuantizedType::kBlock32);
  const json config = json::parse(integers.config().json)["quantization_config"];
  EXPECT_EQ(config["quant_method"], "gguf");
  EXPECT_EQ(config["type"], "int-block32");
  const auto matrix = integers.find_quantized("model.layers.0.mlp.up_proj.weight");
  ASSERT_TRUE(matrix.has_value());
  EXPECT_EQ(matrix->group_size(), 32);
  EXPECT_EQ(matrix->type(), QuantizedType::kBlock32);
  EXPECT_EQ(matrix->block32()->zero, 128);
  EXPECT_EQ(integers.find_quantized("model.layers.0.self_attn.v_proj.weight"), std::nullopt);
  EXPECT_EQ(integers.config().dtype, "bfloat16");
  EXPECT_EQ(quantized(GgufType::kQ4_0, "ffn_").config().quantization->bits, 4);
  EXPECT_EQ(quantized(GgufType::kQ5_1, "ffn_").config().quantization->bits, 8);
  EXPECT_EQ(quantized(GgufType::kQ8_0, "token_embd").config().quantization, std::nullopt);
  EXPECT_EQ(quantized(GgufType::kF16, "ffn_").config().quantization, std::nullopt);
}

// Rows of q and k lie in another order in the file, and minima stand beside their scales.
TEST_F(QuantizedModels, RowsOfIntegersAreTheRowsOfTheFloats) {
  for (const GgufType type : {GgufType::kQ4_1, GgufType::kQ5_0, GgufType::kIq4_nl}) {
    const Checkpoint checkpoint = quantized(type, "attn_");
    for (const char* name : {"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.v_proj.weight"}) {
      const auto matrix = checkpoint.find_quantized(name);
      ASSERT_TRUE(matrix.has_value()) << name;
      const GgufIntegers& integers = *matrix->block32();
      const std::vector<float> expected = numbers_of(*checkpoint.find(name));
      const auto count = static_cast<std::size_t>(matrix->rows() * matrix->columns());
      ASSERT_EQ(expected.size(), count);
      std::vector<std::uint8_t> values(count);
      std::vector<float> factors(integers.factors(count)), out(count);
      // In two calls, as a device reads a part of a matrix.
      const std::int64_t half = matrix->rows() / 2;
      matrix->read(half, matrix->rows(), &values[count / 2], &factors[factors.size() / 2], nullptr);
      matrix->read(0, half, values.data(), factors.data(), nullptr);
      for (std::size_t i = 0; i < count; ++i) {
        const float* const of_group = &factors[integers.factors(i / 32 * 32)];
        out[i] = of_group[0] * static_cast<float>(values[i] - integers.zero) + (integers.has_minima ? of_group[1] : 0);
      }
      EXPECT_EQ(out, expected) << name << " " << info_of(type).name;
    }
  }
}

class SplitFiles : public GgufModels {
 protected:
  // Writes the model as two parts, the second with what `change` does to its keys.
  template <typename Change>
  std::filesystem::path split(Change&& change, const char* second = "m-00002-of-00002.gguf") const {
    write(tied_llama(), "whole.gguf");
    const GgufFile whole(folder_ / "whole.gguf");
    GgufWriter first = keys_, rest;
    first.whole("split.no", 0)
        .whole("split.count", 2)
        .whole("split.tensors.count", static_cast<std::uint32_t>(whole.tensors().size()));
    rest.whole("split.no", 1).whole("split.count", 2);
    change(rest);
    bool odd = false;
    for (const auto& [name, tensor] : whole.tensors()) {
      GgufWriter& part = (odd = !odd) ? first : rest;
      part.tensor(name, static_cast<std::uint32_t>(tensor.type), tensor.shape,
                  std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()));
    }
    write(rest, second);
    return write(first, "m-00001-of-00002.gguf");
  }

  static GgufWriter keys() {
    GgufWriter writer;
    const json config = json::parse(Checkpoint::open(kGoldenModels / "llama_tied").config().json);
    writer.text("general.architecture", "llama").whole("llama.block_count", config["num_hidden_layers"]);
    writer.whole("llama.context_length", config["max_position_embeddings"]);
    writer.whole("llama.embedding_length", config["hidden_size"]);
    writer.whole("llama.feed_forward_length", config["intermediate_size"]);
    writer.whole("llama.attention.head_count", config["num_attention_heads"]);
    writer.whole("llama.attention.head_count_kv", config["num_key_value_heads"]);
    writer.number("llama.attention.layer_norm_rms_epsilon", config["rms_norm_eps"]);
    writer.number("llama.rope.freq_base", config["rope_parameters"]["rope_theta"]);
    if (config.contains("head_dim")) writer.whole("llama.attention.key_length", config["head_dim"]);
    if (config.contains("head_dim")) writer.whole("llama.attention.value_length", config["head_dim"]);
    return writer;
  }
  const GgufWriter keys_ = keys();
};

TEST_F(SplitFiles, TheFirstPartOpensAll) {
  const auto parts = Checkpoint::open(split([](auto&) {}));
  const auto whole = Checkpoint::open(folder_ / "whole.gguf");
  ASSERT_EQ(parts.tensors().size(), whole.tensors().size());
  for (const auto& [name, view] : whole.tensors()) EXPECT_EQ(numbers_of(*parts.find(name)), numbers_of(view)) << name;
  const auto weights = [](const Checkpoint& checkpoint) {
    const std::string all = checkpoint.fingerprint();
    return all.substr(0, all.find(';'));
  };
  EXPECT_EQ(weights(parts), weights(whole));
}

TEST_F(SplitFiles, AnotherPartIsRefusedAndNamesTheFirst) {
  split([](auto&) {});
  EXPECT_THAT(
      error_of([&] { Checkpoint::open(folder_ / "m-00002-of-00002.gguf"); }),
      HasSubstr("is part 2 of 2 of a split model; give the first part, whose name ends with '-00001-of-00002.gguf'"));
}

TEST_F(SplitFiles, APartThatIsMissingOrOfAnotherSplitIsRefused) {
  EXPECT_THAT(error_of([&] { Checkpoint::open(split([](auto&) {}, "m-00002-of-00003.gguf")); }),
              AllOf(HasSubstr("m-00002-of-00002.gguf: is missing, part 2 of 2"), HasSubstr("download it")));
  EXPECT_THAT(error_of([&] {
                const auto first =
                    split([](GgufWriter& rest) { rest = GgufWriter().whole("split.no", 2).whole("split.count", 2); });
                Checkpoint::open(first);
              }),
              HasSubstr("key 'split.no' at byte 24 is 2; expected 1"));
  EXPECT_THAT(error_of([&] {
                const auto first = split([](GgufWriter& rest) { rest.tensor("extra", 0, {1}, "abcd"); });
                Checkpoint::open(first);
              }),
              HasSubstr("but split.tensors.count is"));
  const auto first = split([](auto&) {});
  std::filesystem::rename(first, folder_ / "renamed.gguf");
  EXPECT_THAT(error_of([&] { Checkpoint::open(folder_ / "renamed.gguf"); }), HasSubstr("rename it"));
}

}  // namespace
}  // namespace mortise::test
