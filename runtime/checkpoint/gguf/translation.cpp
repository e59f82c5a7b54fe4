#include "checkpoint/gguf/translation.hpp"

#include <cstring>
#include <string>

#include "checkpoint/gguf/keys.hpp"
#include "checkpoint/gguf/names.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using nlohmann::json;

constexpr const char* kArchitectures = "llama (with Mistral), qwen2, qwen3, gpt2";
constexpr const char* kInstead = "use the model's safetensors checkpoint, if Mortise serves it";

// Translates the keys of one architecture. Used by one thread.
class Translator {
 public:
  explicit Translator(const std::vector<GgufFile>& parts) : parts_(parts), keys_(parts.front()) {}

  GgufModel translate() {
    if (const auto type = keys_.text("general.type"); type && *type != "model") {
      keys_.refuse("general.type", "expected 'model': adapters, projectors and other parts of models are not served");
    }
    const auto architecture = keys_.text("general.architecture");
    if (!architecture) fail("{}: has no key 'general.architecture'; convert the model again", where());
    arch_ = *architecture;
    if (arch_ == "gpt2") {
      translate_gpt2();
    } else if (arch_ == "llama" || arch_ == "qwen2" || arch_ == "qwen3") {
      translate_llama();
    } else {
      keys_.refuse("general.architecture", fmt::format("served are {}; {}", kArchitectures, kInstead));
    }
    keys_.refuse_unread(arch_ + ".", fmt::format("this key is not served for the architecture {}, and could change "
                                                 "results; {}",
                                                 arch_, kInstead));
    GgufModel out;
    out.tensors = name_tensors(parts_, features_);
    read_token_ids(out);
    out.config = std::move(config_);
    return out;
  }

 private:
  const std::string& where() const { return parts_.front().path().native(); }
  std::string key(const char* name) const { return arch_ + "." + name; }
  bool has_tensor(const char* name) const { return find_gguf_tensor(parts_, name) != nullptr; }

  // Refuses a key unless it has the only value that changes nothing.
  void require_whole(const char* name, std::uint64_t value, const std::string& expected) {
    const auto found = keys_.whole(key(name), UINT64_MAX);
    if (found && *found != value) keys_.refuse(key(name), expected);
  }
  void require_number(const char* name, double value, const std::string& expected) {
    const auto found = keys_.number(key(name));
    if (found && *found != value) keys_.refuse(key(name), expected);
  }

  // A size that may be given for each layer; then all must be equal.
  std::uint64_t size(const char* name) {
    const auto found = parts_.front().keys().find(key(name));
    if (found == parts_.front().keys().end() || !std::holds_alternative<GgufArray>(found->second.value)) {
      return keys_.need_whole(key(name));
    }
    const GgufArray& sizes = *keys_.array(key(name));
    const std::string rest = fmt::format("expected one whole number, or the same for all layers; {}", kInstead);
    if (sizes.of_strings() || sizes.size() == 0) keys_.refuse(key(name), rest);
    const double first = sizes.number(0);
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      if (sizes.number(i) != first) keys_.refuse(key(name), rest);
    }
    if (!(first >= 0 && first <= INT32_MAX)) keys_.refuse(key(name), rest);
    return static_cast<std::uint64_t>(first);
  }

  std::uint64_t at_least_one(const char* name) {
    const std::uint64_t value = size(name);
    if (value == 0) keys_.refuse(key(name), "expected at least 1; convert the model again");
    return value;
  }

  // The rows of the embedding; keys that say otherwise are refused.
  std::uint64_t read_vocab_size() {
    const GgufTensor* embedding = find_gguf_tensor(parts_, "token_embd.weight");
    if (embedding == nullptr) {
      fail(
          "{}: lacks 'token_embd.weight', the embedding, so it is no whole model; give a file of a model, and "
          "of "
          "a split one the first part",
          where());
    }
    const auto rows = static_cast<std::uint64_t>(embedding->shape.front());
    require_whole("vocab_size", rows,
                  fmt::format("but 'token_embd.weight' has {} rows; convert the model again", rows));
    return rows;
  }

  void read_common_sizes() {
    features_.num_layers = static_cast<std::int64_t>(at_least_one("block_count"));
    heads_ = at_least_one("attention.head_count");
    hidden_ = at_least_one("embedding_length");
    context_ = at_least_one("context_length");
    features_.head = has_tensor("output.weight");
    config_["vocab_size"] = read_vocab_size();
    config_["tie_word_embeddings"] = !features_.head;
    if (keys_.truth(key("attention.causal")) == false) {
      keys_.refuse(key("attention.causal"), "expected true: encoders are not served");
    }
  }

  void translate_gpt2() {
    read_common_sizes();
    features_.is_gpt2 = true;
    config_["model_type"] = "gpt2";
    config_["architectures"] = {"GPT2LMHeadModel"};
    config_["n_layer"] = features_.num_layers;
    config_["n_head"] = heads_;
    config_["n_embd"] = hidden_;
    config_["n_positions"] = context_;
    config_["n_inner"] = at_least_one("feed_forward_length");
    config_["layer_norm_epsilon"] = keys_.need_number(key("attention.layer_norm_epsilon"));
    config_["activation_function"] = "gelu_new";
    require_whole("attention.head_count_kv", heads_,
                  fmt::format("expected {}, the number of heads: gpt2 has a key for each head", heads_));
  }

  void translate_llama() {
    read_common_sizes();
    config_["num_hidden_layers"] = features_.num_layers;
    config_["num_attention_heads"] = heads_;
    config_["hidden_size"] = hidden_;
    config_["max_position_embeddings"] = context_;
    config_["intermediate_size"] = at_least_one("feed_forward_length");
    config_["rms_norm_eps"] = keys_.need_number(key("attention.layer_norm_rms_epsilon"));
    config_["hidden_act"] = "silu";
    const std::uint64_t kv_heads =
        keys_.has(key("attention.head_count_kv")) ? at_least_one("attention.head_count_kv") : heads_;
    config_["num_key_value_heads"] = kv_heads;
    read_head_size();
    const std::string experts = fmt::format("expected 0: mixtures of experts are not served; {}", kInstead);
    require_whole("expert_count", 0, experts);
    require_whole("expert_used_count", 0, experts);
    read_rope();
    if (arch_ == "llama") {
      features_.rope_heads = static_cast<std::int64_t>(heads_);
      features_.rope_kv_heads = static_cast<std::int64_t>(kv_heads);
    }
    read_features();
    read_window();
  }

  void read_head_size() {
    const auto given = keys_.whole(key("attention.key_length"));
    if (!given && hidden_ % heads_ != 0) {
      keys_.refuse(key("attention.head_count"),
                   fmt::format("expected a divisor of embedding_length {}, or a key attention.key_length", hidden_));
    }
    head_size_ = given.value_or(hidden_ / heads_);
    if (head_size_ == 0) keys_.refuse(key("attention.key_length"), "expected at least 1; convert the model again");
    const std::string expected = fmt::format("expected {}, the size of a head; {}", head_size_, kInstead);
    require_whole("attention.value_length", head_size_, expected);
    require_whole("rope.dimension_count", head_size_, expected);
    config_["head_dim"] = head_size_;
  }

  // Features that no key tells, but the tensors of the first layer.
  void read_features() {
    features_.qkv_bias = arch_ == "qwen2" || has_tensor("blk.0.attn_q.bias");
    features_.out_bias = has_tensor("blk.0.attn_output.bias");
    features_.mlp_bias = has_tensor("blk.0.ffn_up.bias");
    features_.qk_norm = arch_ == "qwen3";
    // Of the llama family in transformers, only Qwen2 has biases on q, k and v without one on the output.
    const bool as_qwen2 = arch_ == "qwen2" || (arch_ == "llama" && features_.qkv_bias && !features_.out_bias);
    const char* const family = as_qwen2 ? "qwen2" : arch_ == "qwen3" ? "qwen3" : "llama";
    if (as_qwen2 || arch_ == "qwen3") {
      if (features_.mlp_bias) refuse_tensor("blk.0.ffn_up.bias");
      if (as_qwen2 && features_.out_bias) refuse_tensor("blk.0.attn_output.bias");
      config_["use_sliding_window"] = false;
    } else {
      config_["mlp_bias"] = features_.mlp_bias;
    }
    if (!as_qwen2) {
      // One setting for all four products: a file that has only some of the biases lacks a tensor then.
      features_.qkv_bias = features_.out_bias = features_.qkv_bias || features_.out_bias;
      config_["attention_bias"] = features_.qkv_bias;
    }
    config_["model_type"] = family;
    config_["architectures"] = {as_qwen2           ? "Qwen2ForCausalLM"
                                : arch_ == "qwen3" ? "Qwen3ForCausalLM"
                                                   : "LlamaForCausalLM"};
  }

  [[noreturn]] void refuse_tensor(const char* name) const {
    fail(
        "{}: tensor '{}' at byte {} is a bias that {} has not in transformers, and without it the results would be "
        "others; {}",
        where(), name, find_gguf_tensor(parts_, name)->offset, arch_, kInstead);
  }

  // A window as long as the model changes nothing. Otherwise a `llama` with a window is a Mistral.
  void read_window() {
    const auto window = keys_.whole(key("attention.sliding_window"));
    if (!window || *window == 0 || *window >= context_) return;
    if (config_["model_type"] != "llama") {
      keys_.refuse(key("attention.sliding_window"),
                   fmt::format("the file does not say which layers of {} have the window; {}", arch_, kInstead));
    }
    if (features_.qkv_bias || features_.mlp_bias) {
      keys_.refuse(key("attention.sliding_window"), fmt::format("a window beside biases is not served; {}", kInstead));
    }
    config_["model_type"] = "mistral";
    config_["architectures"] = {"MistralForCausalLM"};
    config_["sliding_window"] = *window;
    config_.erase("attention_bias");
    config_.erase("mlp_bias");
  }

  void read_rope() {
    json& rope = config_["rope_parameters"] = {{"rope_type", "default"}};
    rope["rope_theta"] = keys_.number(key("rope.freq_base")).value_or(10000.0);
    const std::string type(keys_.text(key("rope.scaling.type")).value_or(""));
    double factor = keys_.number(key("rope.scaling.factor")).value_or(0);
    if (const auto linear = keys_.number(key("rope.scale_linear"))) factor = *linear;  // the name in older files
    keys_.pass(key("rope.scaling.finetuned"));                                         // tells how the model was made
    const auto original = keys_.whole(key("rope.scaling.original_context_length"));
    constexpr const char* kOne = "only 1 is served; use the model's safetensors checkpoint";
    require_number("rope.scaling.attn_factor", 1, kOne);
    require_number("rope.scaling.yarn_attn_factor", 1, kOne);
    require_number("rope.scaling.yarn_ext_factor", 1, kOne);
    const auto fast = keys_.number(key("rope.scaling.yarn_beta_fast"));
    const auto slow = keys_.number(key("rope.scaling.yarn_beta_slow"));
    // Without a type a factor is linear, as llama.cpp has it. Factor 0 is none.
    if (type == "yarn") {
      if (factor == 0) keys_.refuse(key("rope.scaling.type"), "but there is no rope.scaling.factor; convert it again");
      rope["rope_type"] = "yarn";
      rope["factor"] = factor;
      if (original) rope["original_max_position_embeddings"] = *original;
      if (fast) rope["beta_fast"] = *fast;
      if (slow) rope["beta_slow"] = *slow;
    } else if (type == "linear" || type.empty()) {
      if (factor != 0 && factor != 1) rope["rope_type"] = "linear", rope["factor"] = factor;
    } else if (type != "none") {
      keys_.refuse(key("rope.scaling.type"), fmt::format("expected none, linear or yarn; {}", kInstead));
    }
    read_rope_factors(rope);
  }

  // Llama 3's scaling: converters write the divisor of each frequency instead of the four numbers that it follows from.
  void read_rope_factors(json& rope) {
    constexpr const char* kName = "rope_freqs.weight";
    const GgufTensor* tensor = find_gguf_tensor(parts_, kName);
    if (tensor == nullptr) return;
    if (tensor->type != GgufType::kF32 || tensor->shape != std::vector{static_cast<std::int64_t>(head_size_ / 2)}) {
      fail("{}: tensor '{}' at byte {} is not F32 [{}], a factor for each pair of a head; convert the model again",
           where(), kName, tensor->offset, head_size_ / 2);
    }
    if (rope["rope_type"] != "default") {
      fail("{}: tensor '{}' at byte {} scales the rotary embedding, and rope.scaling.type does so, too; {}", where(),
           kName, tensor->offset, kInstead);
    }
    std::vector<float> factors(tensor->bytes.size() / sizeof(float));
    std::memcpy(factors.data(), tensor->bytes.data(), tensor->bytes.size());
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if (factors[i] >= 1 && factors[i] <= 1e6f) continue;  // false for a NaN
      fail("{}: tensor '{}' at byte {}: factor {} is {}; expected 1 to 1000000; convert the model again", where(),
           kName, tensor->offset, i, factors[i]);
    }
    rope["rope_type"] = "factors";
    rope["factors"] = factors;
    features_.rope_factors = true;
  }

  void read_token_ids(GgufModel& out) {
    const auto id = [&](const char* name) -> std::optional<std::int32_t> {
      const auto value = keys_.whole(std::string("tokenizer.ggml.") + name, UINT32_MAX);
      if (!value || *value == UINT32_MAX) return std::nullopt;  // -1: none
      if (*value >= config_["vocab_size"]) {
        keys_.refuse(std::string("tokenizer.ggml.") + name, fmt::format("the model has {} tokens; convert it again",
                                                                        config_["vocab_size"].get<std::uint64_t>()));
      }
      return static_cast<std::int32_t>(*value);
    };
    out.bos_token_id = id("bos_token_id");
    for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
      const auto value = id(name);
      if (value && std::ranges::find(out.eos_token_ids, *value) == out.eos_token_ids.end()) {
        out.eos_token_ids.push_back(*value);
      }
    }
    if (out.bos_token_id) config_["bos_token_id"] = *out.bos_token_id;
    if (!out.eos_token_ids.empty()) config_["eos_token_id"] = out.eos_token_ids;
  }

  const std::vector<GgufFile>& parts_;
  GgufKeys keys_;
  std::string arch_;
  GgufFeatures features_;
  json config_;
  std::uint64_t heads_ = 0, hidden_ = 0, context_ = 0, head_size_ = 0;
};

}  // namespace

GgufModel translate_gguf(const std::vector<GgufFile>& parts) {
  return Translator(parts).translate();
}

}  // namespace mortise
