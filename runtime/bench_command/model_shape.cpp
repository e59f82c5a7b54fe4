#include "bench_command/model_shape.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "error.hpp"

namespace mortise::bench {
namespace {

constexpr std::string_view kPlainRope = R"({"rope_type": "default", "rope_theta": 10000.0})";
constexpr std::string_view kLlama31Rope =
    R"({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "high_freq_factor": 4.0,)"
    R"( "low_freq_factor": 1.0, "original_max_position_embeddings": 8192})";
constexpr std::string_view kLlama32Rope =
    R"({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "high_freq_factor": 4.0,)"
    R"( "low_freq_factor": 1.0, "original_max_position_embeddings": 8192})";

// name, hidden, layers, heads, KV heads, head dim, vocabulary, intermediate, positions, tied, rope
constexpr ModelShape kShapes[] = {
    {"tiny", 288, 6, 6, 6, 48, 4096, 768, 4096, false, kPlainRope},
    {"68m", 768, 2, 12, 12, 64, 32000, 3072, 2048, false, kPlainRope},
    {"160m", 768, 12, 12, 12, 64, 32000, 3072, 4096, false, kPlainRope},
    {"1b", 2048, 16, 32, 8, 64, 128256, 8192, 131072, true, kLlama32Rope},
    {"8b", 4096, 32, 32, 8, 128, 128256, 14336, 131072, false, kLlama31Rope},
    {"70b", 8192, 80, 64, 8, 128, 128256, 28672, 131072, false, kLlama31Rope},
};

constexpr int kNumBytes = 256;
constexpr const char* kSpecialTokens[] = {"<unk>", "<s>", "</s>"};

std::string config_json(const ModelShape& s) {
  return fmt::format(
      R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": {},
"num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {}, "vocab_size": {},
"intermediate_size": {}, "max_position_embeddings": {}, "tie_word_embeddings": {}, "rope_parameters": {},
"hidden_act": "silu", "rms_norm_eps": 1e-05, "attention_bias": false, "mlp_bias": false,
"bos_token_id": 1, "eos_token_id": 2}}
)",
      s.hidden_size, s.num_layers, s.num_heads, s.num_kv_heads, s.head_dim, s.vocab_size, s.intermediate_size,
      s.max_position_embeddings, s.tie_word_embeddings, s.rope);
}

std::string tokenizer_json(const ModelShape& s) {
  std::string vocab, added;
  int id = 0;
  for (const char* token : kSpecialTokens) {
    fmt::format_to(std::back_inserter(vocab), "{}\"{}\": {}", id == 0 ? "" : ",\n", token, id);
    fmt::format_to(std::back_inserter(added),
                   R"({}{{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false,)"
                   R"( "normalized": false, "special": true}})",
                   id == 0 ? "" : ",\n", id, token);
    ++id;
  }
  for (int byte = 0; byte < kNumBytes; ++byte, ++id) {
    fmt::format_to(std::back_inserter(vocab), ",\n\"<0x{:02X}>\": {}", byte, id);
  }
  for (; id < s.vocab_size; ++id) fmt::format_to(std::back_inserter(vocab), ",\n\"<|unused_{}|>\": {}", id, id);
  return fmt::format(R"({{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{}],
"normalizer": null, "pre_tokenizer": null, "post_processor": null,
"decoder": {{"type": "Sequence", "decoders": [{{"type": "ByteFallback"}}, {{"type": "Fuse"}}]}},
"model": {{"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
"end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": true, "ignore_merges": false,
"vocab": {{{}}}, "merges": []}}}}
)",
                     added, vocab);
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text << std::flush;
  if (!stream) fail("{}: cannot be written; is the disk full? (TMPDIR can name another folder)", path.native());
}

}  // namespace

const ModelShape& model_shape(std::string_view name, std::string_view option) {
  const auto* found = std::find_if(std::begin(kShapes), std::end(kShapes), [&](auto& s) { return s.name == name; });
  if (found == std::end(kShapes))
    fail("{} {}: no shape has that name; there are {}", option, name, model_shape_names());
  return *found;
}

std::string model_shape_names() {
  std::vector<std::string_view> names;
  for (const ModelShape& shape : kShapes) names.push_back(shape.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<TensorShape> tensors_of(const ModelShape& s) {
  std::vector<TensorShape> tensors = {{"model.embed_tokens.weight", {s.vocab_size, s.hidden_size}},
                                      {"model.norm.weight", {s.hidden_size}}};
  if (!s.tie_word_embeddings) tensors.push_back({"lm_head.weight", {s.vocab_size, s.hidden_size}});
  for (std::int64_t layer = 0; layer < s.num_layers; ++layer) {
    const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
      tensors.push_back({fmt::format("model.layers.{}.{}.weight", layer, name), std::move(shape)});
    };
    add("input_layernorm", {s.hidden_size});
    add("post_attention_layernorm", {s.hidden_size});
    add("self_attn.q_proj", {s.num_heads * s.head_dim, s.hidden_size});
    add("self_attn.k_proj", {s.num_kv_heads * s.head_dim, s.hidden_size});
    add("self_attn.v_proj", {s.num_kv_heads * s.head_dim, s.hidden_size});
    add("self_attn.o_proj", {s.hidden_size, s.num_heads * s.head_dim});
    add("mlp.gate_proj", {s.intermediate_size, s.hidden_size});
    add("mlp.up_proj", {s.intermediate_size, s.hidden_size});
    add("mlp.down_proj", {s.hidden_size, s.intermediate_size});
  }
  return tensors;
}

std::uint64_t device_bytes_of(const ModelShape& shape, int weight_bits, int head_bits, int float_bits) {
  const auto embedding = static_cast<std::uint64_t>(shape.vocab_size * shape.hidden_size);
  std::uint64_t body = 0;
  for (const TensorShape& tensor : tensors_of(shape)) {
    if (tensor.shape.size() == 2 && tensor.shape[0] != shape.vocab_size) {
      body += static_cast<std::uint64_t>(tensor.shape[0] * tensor.shape[1]);
    }
  }
  const bool shared = shape.tie_word_embeddings && head_bits == float_bits;
  return (body * static_cast<std::uint64_t>(weight_bits) +
          embedding * static_cast<std::uint64_t>((shared ? 0 : head_bits) + float_bits)) /
         8;
}

void write_model_description(const ModelShape& shape, const std::filesystem::path& folder) {
  write_text(folder / "config.json", config_json(shape));
  write_text(folder / "tokenizer.json", tokenizer_json(shape));
  write_text(
      folder / "tokenizer_config.json",
      R"({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
)");
}

}  // namespace mortise::bench
