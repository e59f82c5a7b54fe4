#include "random_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string_view>

#include "golden/write_safetensors.hpp"

namespace mortise::test {
namespace {

struct Shape {
  const char* name;
  const char* type;
  const char* dtype;
  std::int64_t hidden, heads, kv_heads, head_dim, intermediate, layers;
  std::int64_t window = 0;
  bool tied = false;
  std::int64_t vocab = 4096;  // the demo tokenizer's; ids above it have no text
  // The layers' matrices are E4M3, with scales by "block", "channel" or "tensor", or "mxfp4".
  const char* quantized = nullptr;
};

constexpr std::int64_t kPositions = 2048;

constexpr Shape kShapes[] = {
    {"llama bf16 gqa tied", "llama", "bfloat16", 64, 4, 2, 16, 96, 2, 0, true},
    {"mistral bf16 window 100", "mistral", "bfloat16", 64, 4, 1, 32, 128, 2, 100},
    {"qwen2 bf16 biases", "qwen2", "bfloat16", 96, 2, 2, 48, 160, 2},
    {"qwen3 bf16 q/k norm", "qwen3", "bfloat16", 64, 8, 2, 24, 96, 1},
    {"llama f32", "llama", "float32", 64, 2, 2, 32, 96, 1},
    {"opt bf16 tied", "opt", "bfloat16", 64, 4, 4, 16, 96, 2, 0, true},
    {"gpt2 f32 tied", "gpt2", "float32", 48, 6, 6, 8, 192, 1, 0, true},
    {"qwen3 fp8 blocks", "qwen3", "bfloat16", 192, 4, 2, 48, 320, 1, 0, false, 4096, "block"},
    {"llama fp8 channels", "llama", "bfloat16", 64, 4, 2, 16, 160, 2, 0, false, 4096, "channel"},
    {"qwen3 mxfp4", "qwen3", "bfloat16", 96, 4, 2, 48, 160, 2, 0, true, 4096, "mxfp4"},
};

constexpr Shape kGpuShapes[] = {
    {"llama bf16 gqa tied", "llama", "bfloat16", 64, 4, 2, 64, 96, 2, 0, true},
    {"mistral bf16 window 100", "mistral", "bfloat16", 64, 4, 1, 128, 128, 2, 100},
    {"qwen2 bf16 biases", "qwen2", "bfloat16", 96, 2, 2, 64, 160, 2},
    {"qwen3 bf16 q/k norm", "qwen3", "bfloat16", 64, 8, 2, 128, 96, 1},
    {"llama bf16 odd sizes", "llama", "bfloat16", 68, 3, 1, 64, 90, 1},  // rows that cuBLASLt does not take
    {"opt bf16 tied", "opt", "bfloat16", 128, 2, 2, 64, 96, 2, 0, true},
    {"gpt2 bf16 tied", "gpt2", "bfloat16", 64, 1, 1, 64, 256, 1, 0, true},
    {"llama bf16 heads of 32", "llama", "bfloat16", 64, 4, 2, 32, 96, 2},
    {"opt bf16 heads of 80", "opt", "bfloat16", 160, 2, 2, 80, 96, 1, 0, true},
    {"mistral bf16 heads of 96, window 100", "mistral", "bfloat16", 64, 4, 1, 96, 128, 2, 100},
    {"qwen3 bf16 heads of 192, q/k norm", "qwen3", "bfloat16", 64, 2, 1, 192, 96, 1},
    {"llama f16 heads of 64, in bf16", "llama", "float16", 64, 4, 2, 64, 96, 1},
    {"llama f32 heads of 128, in bf16", "llama", "float32", 64, 2, 1, 128, 96, 1},
    {"llama bf16 heads of 256", "llama", "bfloat16", 64, 4, 2, 256, 96, 1},
    {"qwen3 fp8 blocks", "qwen3", "bfloat16", 192, 4, 2, 64, 320, 2, 0, false, 4096, "block"},
    {"llama fp8 channels", "llama", "bfloat16", 72, 4, 2, 64, 160, 2, 0, false, 4096, "channel"},
    {"llama fp8 tensors", "llama", "bfloat16", 64, 4, 2, 128, 200, 1, 0, true, 4096, "tensor"},
    {"llama mxfp4", "llama", "bfloat16", 128, 4, 2, 64, 352, 2, 0, false, 4096, "mxfp4"},
};

constexpr Shape kLarge = {"llama 160m", "llama", "bfloat16", 768, 12, 12, 64, 3072, 12, 0, false, 32000};

// The nearest f16, ties to even. By hand, because g++ 12 knows _Float16 on x86 alone. REQUIRES: |number| < 65504.
std::uint32_t f16_bits(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  if (std::abs(number) < 0x1p-14f) return sign | static_cast<std::uint32_t>(std::lrint(std::abs(number) * 0x1p24f));
  const std::uint32_t rounded = (bits & 0x7fffffffu) + 0xfffu + (bits >> 13 & 1u);
  return sign | ((rounded >> 13) - ((127 - 15) << 10));
}

class Writer {
 public:
  Writer(const Shape& shape, std::uint32_t seed) : shape_(shape), random_(seed) {}

  void add(const std::string& name, std::vector<std::int64_t> shape, float mean, float deviation) {
    std::int64_t count = 1;
    for (std::int64_t n : shape) count *= n;
    const std::string dtype = shape_.dtype;
    const std::size_t size = dtype == "float32" ? 4 : 2;
    std::string bytes(static_cast<std::size_t>(count) * size, '\0');
    std::normal_distribution<float> normal(mean, deviation);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const float number = normal(random_);
      // The upper half of an f32 is a bf16, in the lower half of a register.
      const std::uint32_t bits = dtype == "float32"   ? std::bit_cast<std::uint32_t>(number)
                                 : dtype == "float16" ? f16_bits(number)
                                                      : std::bit_cast<std::uint32_t>(number) >> 16;
      std::memcpy(&bytes[size * i], &bits, size);
    }
    const char* const type = dtype == "float32" ? "F32" : dtype == "float16" ? "F16" : "BF16";
    tensors.push_back({name, type, std::move(shape), std::move(bytes)});
  }

  // Numbers of E4M3 between 2^-3 and 2, and some near 0, with scales that give the deviation.
  void add_fp8(const std::string& module, std::int64_t rows, std::int64_t columns, float deviation) {
    std::string values(static_cast<std::size_t>(rows * columns), '\0');
    for (char& value : values) {
      const std::uint32_t bits = random_();
      const std::uint32_t exponent = (bits >> 8 & 15) == 0 ? 0 : 4 + (bits >> 4 & 3);
      value = static_cast<char>((bits & 0x87u) | exponent << 3);
    }
    const std::string strategy = shape_.quantized;
    const std::vector<std::int64_t> shape = strategy == "block" ? std::vector{(rows + 127) / 128, (columns + 127) / 128}
                                            : strategy == "channel" ? std::vector<std::int64_t>{rows, 1}
                                                                    : std::vector<std::int64_t>{1};
    std::string scales;
    for (std::int64_t i = 0; i < shape[0] * (shape.size() == 2 ? shape[1] : 1); ++i) {
      const float scale = deviation * std::uniform_real_distribution<float>(0.7f, 1.7f)(random_);
      scales.append(reinterpret_cast<const char*>(&scale), sizeof scale);
    }
    tensors.push_back({module + (strategy == "block" ? ".weight_scale_inv" : ".weight_scale"), "F32", shape, scales});
    bytes_.push_back({module + ".weight", "F8_E4M3", {rows, columns}, std::move(values)});
  }

  // All sixteen numbers of E2M1, with scales of two sizes.
  void add_mxfp4(const std::string& module, std::int64_t rows, std::int64_t columns, float deviation) {
    std::string values(static_cast<std::size_t>(rows * columns / 2), '\0'), scales;
    for (char& value : values) value = static_cast<char>(random_());
    const int exponent = std::ilogb(deviation) + 126;  // numbers have a deviation of 2.8
    for (std::int64_t i = 0; i < rows * (columns / 32); ++i) {
      scales += static_cast<char>(exponent - static_cast<int>(random_() % 2));
    }
    bytes_.push_back({module + ".weight_packed", "U8", {rows, columns / 2}, std::move(values)});
    bytes_.push_back({module + ".weight_scale", "U8", {rows, columns / 32}, std::move(scales)});
  }

  // All tensors, those with the smallest elements last.
  std::vector<TensorToWrite> take() {
    // An f32 scale may stand after an odd number of bf16 elements.
    std::stable_sort(tensors.begin() + 1, tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
      return (a.dtype == "F32") > (b.dtype == "F32");
    });
    tensors.insert(tensors.end(), bytes_.begin(), bytes_.end());
    return std::move(tensors);
  }

  std::vector<TensorToWrite> tensors;

 private:
  std::vector<TensorToWrite> bytes_;
  const Shape& shape_;
  std::mt19937 random_;
};

void add_layer(Writer& writer, const Shape& s, const std::string& prefix) {
  const auto linear = [&](const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
    const float deviation = 2.0f / std::sqrt(static_cast<float>(columns));
    if (s.quantized != nullptr && std::string_view(s.quantized) == "mxfp4") {
      writer.add_mxfp4(prefix + name, rows, columns, deviation);
    } else if (s.quantized != nullptr) {
      writer.add_fp8(prefix + name, rows, columns, deviation);
    } else {
      writer.add(prefix + name + ".weight", {rows, columns}, 0, deviation);
    }
    if (bias) writer.add(prefix + name + ".bias", {rows}, 0, 0.2f);
  };
  const bool qkv_bias = std::string(s.type) == "qwen2";
  writer.add(prefix + "input_layernorm.weight", {s.hidden}, 1, 0.1f);
  linear("self_attn.q_proj", s.heads * s.head_dim, s.hidden, qkv_bias);
  linear("self_attn.k_proj", s.kv_heads * s.head_dim, s.hidden, qkv_bias);
  linear("self_attn.v_proj", s.kv_heads * s.head_dim, s.hidden, qkv_bias);
  linear("self_attn.o_proj", s.hidden, s.heads * s.head_dim, false);
  if (std::string(s.type) == "qwen3") {
    writer.add(prefix + "self_attn.q_norm.weight", {s.head_dim}, 1, 0.1f);
    writer.add(prefix + "self_attn.k_norm.weight", {s.head_dim}, 1, 0.1f);
  }
  writer.add(prefix + "post_attention_layernorm.weight", {s.hidden}, 1, 0.1f);
  linear("mlp.gate_proj", s.intermediate, s.hidden, false);
  linear("mlp.up_proj", s.intermediate, s.hidden, false);
  linear("mlp.down_proj", s.hidden, s.intermediate, false);
}

// A layer norm, and a product with bias as torch's Linear has it, or transposed as GPT-2 does.
void add_norm(Writer& writer, const std::string& name, std::int64_t n) {
  writer.add(name + ".weight", {n}, 1, 0.1f);
  writer.add(name + ".bias", {n}, 0, 0.1f);
}
void add_biased(Writer& writer, const std::string& name, std::int64_t rows, std::int64_t columns, bool transposed) {
  const std::vector<std::int64_t> shape = transposed ? std::vector{columns, rows} : std::vector{rows, columns};
  writer.add(name + ".weight", shape, 0, 2.0f / std::sqrt(static_cast<float>(columns)));
  writer.add(name + ".bias", {rows}, 0, 0.2f);
}

void add_opt(Writer& writer, const Shape& s) {
  const std::string decoder = "model.decoder.";
  writer.add(decoder + "embed_tokens.weight", {s.vocab, s.hidden}, 0, 0.3f);
  writer.add(decoder + "embed_positions.weight", {kPositions + 2, s.hidden}, 0, 0.3f);
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = decoder + "layers." + std::to_string(i) + ".";
    add_norm(writer, layer + "self_attn_layer_norm", s.hidden);
    for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      add_biased(writer, layer + "self_attn." + name, s.hidden, s.hidden, false);
    }
    add_norm(writer, layer + "final_layer_norm", s.hidden);
    add_biased(writer, layer + "fc1", s.intermediate, s.hidden, false);
    add_biased(writer, layer + "fc2", s.hidden, s.intermediate, false);
  }
  add_norm(writer, decoder + "final_layer_norm", s.hidden);
}

void add_gpt2(Writer& writer, const Shape& s) {
  writer.add("transformer.wte.weight", {s.vocab, s.hidden}, 0, 0.3f);
  writer.add("transformer.wpe.weight", {kPositions, s.hidden}, 0, 0.3f);
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = "transformer.h." + std::to_string(i) + ".";
    add_norm(writer, layer + "ln_1", s.hidden);
    add_biased(writer, layer + "attn.c_attn", 3 * s.hidden, s.hidden, true);
    add_biased(writer, layer + "attn.c_proj", s.hidden, s.hidden, true);
    add_norm(writer, layer + "ln_2", s.hidden);
    add_biased(writer, layer + "mlp.c_fc", s.intermediate, s.hidden, true);
    add_biased(writer, layer + "mlp.c_proj", s.hidden, s.intermediate, true);
  }
  add_norm(writer, "transformer.ln_f", s.hidden);
}

void add_llama(Writer& writer, const Shape& s) {
  writer.add("model.embed_tokens.weight", {s.vocab, s.hidden}, 0, s.tied ? 0.3f : 1.0f);
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    add_layer(writer, s, "model.layers." + std::to_string(layer) + ".");
  }
  writer.add("model.norm.weight", {s.hidden}, 1, 0.1f);
  if (!s.tied) writer.add("lm_head.weight", {s.vocab, s.hidden}, 0, 0.3f);
}

nlohmann::json opt_config(const Shape& s) {
  return {{"architectures", {"OPTForCausalLM"}},
          {"model_type", "opt"},
          {"dtype", s.dtype},
          {"hidden_size", s.hidden},
          {"num_attention_heads", s.heads},
          {"num_hidden_layers", s.layers},
          {"ffn_dim", s.intermediate},
          {"max_position_embeddings", kPositions},
          {"vocab_size", s.vocab},
          {"activation_function", "relu"}};
}

nlohmann::json gpt2_config(const Shape& s) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"dtype", s.dtype},
          {"n_embd", s.hidden},
          {"n_head", s.heads},
          {"n_layer", s.layers},
          {"n_inner", s.intermediate},
          {"n_positions", kPositions},
          {"vocab_size", s.vocab},
          {"activation_function", "gelu_new"}};
}

nlohmann::json quantization_config(const Shape& s) {
  const std::string strategy = s.quantized;
  if (strategy == "block") return {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  if (strategy == "tensor") return {{"quant_method", "fp8"}, {"activation_scheme", "static"}};
  if (strategy == "mxfp4") {
    const nlohmann::json weights = {{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}, {"group_size", 32}};
    return {{"quant_method", "compressed-tensors"},
            {"format", "mxfp4-pack-quantized"},
            {"config_groups", {{"group_0", {{"weights", weights}}}}}};
  }
  const nlohmann::json weights = {{"num_bits", 8}, {"type", "float"}, {"strategy", strategy}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "float-quantized"},
          {"config_groups", {{"group_0", {{"weights", weights}}}}}};
}

nlohmann::json llama_config(const Shape& s) {
  const char* architecture = std::string(s.type) == "llama"     ? "LlamaForCausalLM"
                             : std::string(s.type) == "mistral" ? "MistralForCausalLM"
                             : std::string(s.type) == "qwen2"   ? "Qwen2ForCausalLM"
                                                                : "Qwen3ForCausalLM";
  nlohmann::json config = {{"architectures", {architecture}},
                           {"model_type", s.type},
                           {"dtype", s.dtype},
                           {"hidden_size", s.hidden},
                           {"num_attention_heads", s.heads},
                           {"num_key_value_heads", s.kv_heads},
                           {"head_dim", s.head_dim},
                           {"intermediate_size", s.intermediate},
                           {"num_hidden_layers", s.layers},
                           {"vocab_size", s.vocab},
                           {"max_position_embeddings", kPositions},
                           {"rms_norm_eps", 1e-5},
                           {"hidden_act", "silu"},
                           {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
                           {"sliding_window", s.window > 0 ? nlohmann::json(s.window) : nlohmann::json()},
                           {"tie_word_embeddings", s.tied}};
  if (s.quantized != nullptr) config["quantization_config"] = quantization_config(s);
  return config;
}

// One row of the token embeddings, which all models write first.
void fill_with_nan(TensorToWrite& embeddings, std::int32_t token) {
  const auto row = embeddings.bytes.size() / static_cast<std::size_t>(embeddings.shape.front());
  const bool bf16 = embeddings.dtype == "BF16";
  const std::string_view nan = bf16 ? std::string_view("\xc0\x7f", 2) : std::string_view("\x00\x00\xc0\x7f", 4);
  for (std::size_t i = 0; i < row; i += nan.size()) {
    embeddings.bytes.replace(static_cast<std::size_t>(token) * row + i, nan.size(), nan);
  }
}

void write_model(const Shape& s, std::uint32_t seed, const std::filesystem::path& folder, std::int32_t nan_token = -1) {
  std::filesystem::create_directories(folder);
  const bool opt = std::string(s.type) == "opt", gpt2 = std::string(s.type) == "gpt2";
  std::ofstream(folder / "config.json") << (opt ? opt_config(s) : gpt2 ? gpt2_config(s) : llama_config(s));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy_file(std::filesystem::path(MORTISE_SOURCE_DIR "/models/demo") / name, folder / name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  Writer writer(s, seed);
  opt ? add_opt(writer, s) : gpt2 ? add_gpt2(writer, s) : add_llama(writer, s);
  if (nan_token >= 0) fill_with_nan(writer.tensors.front(), nan_token);
  write_file(folder / "model.safetensors", safetensors_bytes(writer.take()));
}

}  // namespace

namespace {

int most_shards(const Shape& shape) {
  const auto divides = [&](std::int64_t ranks) {
    return shape.heads % ranks == 0 && shape.hidden % ranks == 0 && shape.intermediate % ranks == 0 &&
           (shape.kv_heads % ranks == 0 || ranks % shape.kv_heads == 0);
  };
  return divides(4) ? 4 : divides(2) ? 2 : 1;
}

std::vector<RandomModel> write_models(std::span<const Shape> shapes, const std::filesystem::path& root,
                                      std::int32_t nan_token) {
  std::vector<RandomModel> models;
  for (const Shape& shape : shapes) {
    const auto index = static_cast<std::uint32_t>(models.size());
    models.push_back({shape.name, static_cast<std::int32_t>(shape.vocab), root / std::to_string(index),
                      shape.quantized != nullptr, most_shards(shape)});
    write_model(shape, 100 + index, models.back().folder, nan_token);
  }
  return models;
}

}  // namespace

std::vector<RandomModel> write_random_models(const std::filesystem::path& root, std::int32_t nan_token) {
  return write_models(kShapes, root, nan_token);
}

std::vector<RandomModel> write_random_gpu_models(const std::filesystem::path& root, std::int32_t nan_token) {
  return write_models(kGpuShapes, root, nan_token);
}

RandomModel write_large_model(const std::filesystem::path& root) {
  write_model(kLarge, 7, root / kLarge.name);
  return {kLarge.name, static_cast<std::int32_t>(kLarge.vocab), root / kLarge.name, false, most_shards(kLarge)};
}

}  // namespace mortise::test
