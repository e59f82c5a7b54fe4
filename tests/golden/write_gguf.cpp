#include "golden/write_gguf.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/half.hpp"
#include "golden/write_safetensors.hpp"

namespace mortise::test {
namespace {

using nlohmann::json;

template <typename T>
std::string bytes_of(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

std::string text_bytes(const std::string& text) {
  return bytes_of(std::uint64_t{text.size()}) + text;
}

template <typename T>
std::string list_bytes(std::uint32_t type, const std::vector<T>& values) {
  std::string out = bytes_of(type) + bytes_of(std::uint64_t{values.size()});
  for (const T& value : values) out += bytes_of(value);
  return out;
}

std::string f32_bytes(const TensorView& view) {
  std::string out;
  const std::size_t size = dtype_size(view.dtype);
  for (std::size_t at = 0; at < view.bytes.size(); at += size) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, view.bytes.data() + at, size);
    const auto half = static_cast<std::uint16_t>(bits);
    out += bytes_of(view.dtype == Dtype::kF32   ? bits
                    : view.dtype == Dtype::kF16 ? std::bit_cast<std::uint32_t>(half_to_float(half))
                                                : std::uint32_t{half} << 16);
  }
  return out;
}

// llama.cpp's order of the rows of q and k: each head's halves interleaved.
std::string interleaved(const std::string& bytes, std::int64_t rows, std::int64_t heads) {
  const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(rows);
  const std::int64_t size = rows / heads;
  std::string out;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t pair = 0; pair < size / 2; ++pair) {
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t row = head * size + half * (size / 2) + pair;
        out += bytes.substr(static_cast<std::size_t>(row) * row_bytes, row_bytes);
      }
    }
  }
  return out;
}

std::string transposed(const std::string& bytes, std::int64_t rows, std::int64_t columns) {
  const std::size_t size = bytes.size() / static_cast<std::size_t>(rows * columns);
  std::string out;
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) out += bytes.substr(static_cast<std::size_t>(i * columns + j) * size, size);
  }
  return out;
}

const std::map<std::string, std::string> kNames = {{"input_layernorm", "attn_norm"},
                                                   {"post_attention_layernorm", "ffn_norm"},
                                                   {"self_attn.q_proj", "attn_q"},
                                                   {"self_attn.k_proj", "attn_k"},
                                                   {"self_attn.v_proj", "attn_v"},
                                                   {"self_attn.o_proj", "attn_output"},
                                                   {"self_attn.q_norm", "attn_q_norm"},
                                                   {"self_attn.k_norm", "attn_k_norm"},
                                                   {"mlp.gate_proj", "ffn_gate"},
                                                   {"mlp.up_proj", "ffn_up"},
                                                   {"mlp.down_proj", "ffn_down"},
                                                   {"embed_tokens", "token_embd"},
                                                   {"norm", "output_norm"},
                                                   {"lm_head", "output"},
                                                   {"wte", "token_embd"},
                                                   {"wpe", "position_embd"},
                                                   {"ln_f", "output_norm"},
                                                   {"ln_1", "attn_norm"},
                                                   {"ln_2", "ffn_norm"},
                                                   {"attn.c_attn", "attn_qkv"},
                                                   {"attn.c_proj", "attn_output"},
                                                   {"mlp.c_fc", "ffn_up"},
                                                   {"mlp.c_proj", "ffn_down"}};

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"
std::string gguf_name(std::string name) {
  std::string out;
  for (const char* prefix : {"model.", "transformer."}) {
    if (name.starts_with(prefix)) name.erase(0, std::strlen(prefix));
  }
  for (const char* layers : {"layers.", "h."}) {
    if (!name.starts_with(layers)) continue;
    name.erase(0, std::strlen(layers));
    const std::size_t end = name.find('.');
    out = "blk." + name.substr(0, end + 1);
    name.erase(0, end + 1);
    break;
  }
  const std::size_t dot = name.rfind('.');
  return out + kNames.at(name.substr(0, dot)) + name.substr(dot);
}

void add_llama(GgufWriter& writer, const json& config, const std::string& arch) {
  writer.whole(arch + ".block_count", config["num_hidden_layers"]);
  writer.whole(arch + ".context_length", config["max_position_embeddings"]);
  writer.whole(arch + ".embedding_length", config["hidden_size"]);
  writer.whole(arch + ".feed_forward_length", config["intermediate_size"]);
  writer.whole(arch + ".attention.head_count", config["num_attention_heads"]);
  writer.whole(arch + ".attention.head_count_kv", config["num_key_value_heads"]);
  writer.number(arch + ".attention.layer_norm_rms_epsilon", config["rms_norm_eps"]);
  if (config.contains("head_dim")) {
    writer.whole(arch + ".attention.key_length", config["head_dim"]);
    writer.whole(arch + ".attention.value_length", config["head_dim"]);
  }
  if (config.value("model_type", "") == "mistral" && config["sliding_window"].is_number()) {
    writer.whole(arch + ".attention.sliding_window", config["sliding_window"]);
  }
  const json rope = config.value("rope_parameters", json::object());
  writer.number(arch + ".rope.freq_base", rope.value("rope_theta", 10000.0f));
  const std::string type = rope.value("rope_type", "default");
  if (type == "linear" || type == "yarn") {
    writer.text(arch + ".rope.scaling.type", type).number(arch + ".rope.scaling.factor", rope["factor"]);
  }
  if (type == "yarn") {
    writer.whole(arch + ".rope.scaling.original_context_length", rope["original_max_position_embeddings"]);
    if (rope.contains("beta_fast")) writer.number(arch + ".rope.scaling.yarn_beta_fast", rope["beta_fast"]);
    if (rope.contains("beta_slow")) writer.number(arch + ".rope.scaling.yarn_beta_slow", rope["beta_slow"]);
  }
}

void add_gpt2(GgufWriter& writer, const json& config) {
  writer.whole("gpt2.block_count", config["n_layer"]);
  writer.whole("gpt2.context_length", config["n_positions"]);
  writer.whole("gpt2.embedding_length", config["n_embd"]);
  const json inner = config.value("n_inner", json());
  writer.whole("gpt2.feed_forward_length",
               inner.is_number() ? inner.get<std::uint32_t>() : 4 * config["n_embd"].get<std::uint32_t>());
  writer.whole("gpt2.attention.head_count", config["n_head"]);
  writer.number("gpt2.attention.layer_norm_epsilon", config["layer_norm_epsilon"]);
}

}  // namespace

GgufWriter& GgufWriter::raw(const std::string& key, std::uint32_t type, const std::string& bytes) {
  keys_ += text_bytes(key) + bytes_of(type) + bytes;
  ++num_keys_;
  return *this;
}

GgufWriter& GgufWriter::whole(const std::string& key, std::uint32_t value) {
  return raw(key, 4, bytes_of(value));
}
GgufWriter& GgufWriter::number(const std::string& key, float value) {
  return raw(key, 6, bytes_of(value));
}
GgufWriter& GgufWriter::truth(const std::string& key, bool value) {
  return raw(key, 7, bytes_of(value));
}
GgufWriter& GgufWriter::text(const std::string& key, const std::string& value) {
  return raw(key, 8, text_bytes(value));
}
GgufWriter& GgufWriter::texts(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes = bytes_of(std::uint32_t{8}) + bytes_of(std::uint64_t{values.size()});
  for (const std::string& value : values) bytes += text_bytes(value);
  return raw(key, 9, bytes);
}
GgufWriter& GgufWriter::wholes(const std::string& key, const std::vector<std::int32_t>& values) {
  return raw(key, 9, list_bytes(5, values));
}
GgufWriter& GgufWriter::numbers(const std::string& key, const std::vector<float>& values) {
  return raw(key, 9, list_bytes(6, values));
}

GgufWriter& GgufWriter::tensor(const std::string& name, std::uint32_t type, const std::vector<std::int64_t>& shape,
                               const std::string& bytes) {
  tensors_.push_back({name, type, shape, bytes});
  return *this;
}

GgufWriter& GgufWriter::retype(const std::string& which, std::uint32_t type, std::int64_t elements,
                               std::size_t block_bytes) {
  for (Tensor& tensor : tensors_) {
    if (tensor.name.find(which) == tensor.name.npos || tensor.shape.size() != 2 || tensor.shape[1] % elements != 0) {
      continue;
    }
    tensor.type = type;
    tensor.bytes.resize(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1] / elements) * block_bytes);
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
      tensor.bytes[i] = static_cast<char>(i * i % 0x3b + i / block_bytes % 2);  // a half below 0x3c00 is finite
    }
  }
  return *this;
}

GgufWriter& GgufWriter::alignment(std::uint64_t value) {
  alignment_ = value;
  return *this;
}

std::string GgufWriter::bytes(std::uint32_t version) const {
  std::string out = "GGUF" + bytes_of(version) + bytes_of(std::uint64_t{tensors_.size()}) + bytes_of(num_keys_) + keys_;
  std::string data;
  for (const Tensor& tensor : tensors_) {
    out += text_bytes(tensor.name) + bytes_of(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) out += bytes_of(*extent);
    out += bytes_of(tensor.type) + bytes_of(std::uint64_t{data.size()});
    data += tensor.bytes;
    data.resize((data.size() + alignment_ - 1) / alignment_ * alignment_);
  }
  out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_);
  return out + data;
}

GgufWriter gguf_of_checkpoint(const std::filesystem::path& folder) {
  const auto checkpoint = Checkpoint::open(folder);
  const json config = json::parse(checkpoint.config().json);
  const std::string family = checkpoint.config().model_type, arch = family == "mistral" ? "llama" : family;
  GgufWriter writer;
  writer.text("general.architecture", arch).text("general.type", "model");
  if (family == "gpt2") {
    add_gpt2(writer, config);
  } else {
    add_llama(writer, config, arch);
  }
  const json eos = config.value("eos_token_id", json());
  if (eos.is_number_unsigned()) writer.whole("tokenizer.ggml.eos_token_id", eos);
  for (const auto& [name, view] : checkpoint.tensors()) {
    const bool vector = view.shape.size() == 1;
    std::string bytes =
        vector ? f32_bytes(view) : std::string(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
    std::vector<std::int64_t> shape = view.shape;
    const bool q = name.find("q_proj") != name.npos, k = name.find("k_proj") != name.npos;
    if (arch == "llama" && (q || k)) {
      bytes = interleaved(bytes, shape[0], config[q ? "num_attention_heads" : "num_key_value_heads"]);
    }
    if (arch == "gpt2" && name.find("c_") != name.npos && !vector) {
      bytes = transposed(bytes, shape[0], shape[1]);
      std::swap(shape[0], shape[1]);
    }
    const std::uint32_t type = vector || view.dtype == Dtype::kF32 ? 0 : view.dtype == Dtype::kF16 ? 1 : 30;
    writer.tensor(gguf_name(name), type, shape, bytes);
  }
  return writer;
}

void add_tokenizer(GgufWriter& writer, const std::filesystem::path& folder, const std::string& pre) {
  const json file = json::parse(read_file(folder / "tokenizer.json"));
  const json config = json::parse(read_file(folder / "tokenizer_config.json"));
  const bool pieces = pre.empty();
  const json& vocab = file["model"]["vocab"];
  std::size_t count = 0;
  for (const auto& [token, id] : vocab.items()) count = std::max(count, id.get<std::size_t>() + 1);
  for (const json& token : file["added_tokens"]) count = std::max(count, token["id"].get<std::size_t>() + 1);
  std::vector<std::string> tokens(count), merges;
  std::vector<std::int32_t> types(count, 5);
  std::vector<float> scores(count, -1e6f);
  for (const auto& [token, id] : vocab.items()) {
    tokens[id.get<std::size_t>()] = token;
    types[id.get<std::size_t>()] = pieces && token.size() == 6 && token.starts_with("<0x") ? 6 : 1;
  }
  for (const json& token : file["added_tokens"]) {
    tokens[token["id"].get<std::size_t>()] = token["content"];
    types[token["id"].get<std::size_t>()] = token["special"].get<bool>() ? 3 : 4;
  }
  float score = 0;
  for (const json& merge : file["model"]["merges"]) {
    const auto halves = merge.is_array() ? merge.get<std::vector<std::string>>() : std::vector<std::string>();
    merges.push_back(merge.is_array() ? halves[0] + " " + halves[1] : merge.get<std::string>());
    std::string merged = merges.back();
    merged.erase(merged.find(' ', 1), 1);
    float& its = scores[vocab[merged].get<std::size_t>()];
    if (its == -1e6f) its = score--;
  }
  writer.text("tokenizer.ggml.model", pieces ? "llama" : "gpt2").text("tokenizer.ggml.pre", pieces ? "default" : pre);
  writer.texts("tokenizer.ggml.tokens", tokens).wholes("tokenizer.ggml.token_type", types);
  if (pieces) {
    writer.numbers("tokenizer.ggml.scores", scores);
  } else {
    writer.texts("tokenizer.ggml.merges", merges);
  }
  const auto name = [&](const char* role, const char* key) {
    const json& token = config.value(role, json());
    const std::string text = token.is_object() ? token["content"] : token.is_string() ? token : json("");
    const auto found = std::find(tokens.begin(), tokens.end(), text);
    if (!text.empty() && found != tokens.end()) writer.whole(key, static_cast<std::uint32_t>(found - tokens.begin()));
  };
  name("bos_token", "tokenizer.ggml.bos_token_id");
  name("eos_token", "tokenizer.ggml.eos_token_id");
  name("unk_token", "tokenizer.ggml.unknown_token_id");
  const json post = file.value("post_processor", json());
  writer.truth("tokenizer.ggml.add_bos_token", post.dump().find("TemplateProcessing") != std::string::npos);
  // Of several templates the file has the one that is named "default".
  json chat = config.value("chat_template", json());
  if (chat.is_array()) {
    const auto named = [](const json& entry) { return entry.at("name") == "default"; };
    const auto found = std::find_if(chat.begin(), chat.end(), named);
    chat = found == chat.end() ? json() : json(found->at("template"));
  }
  if (chat.is_string()) writer.text("tokenizer.chat_template", chat);
}

}  // namespace mortise::test
