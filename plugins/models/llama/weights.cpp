#include "models/llama/weights.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "mortise/plugin.hpp"

namespace mortise::llama {
namespace {

// A tensor of the checkpoint with the number of rows it must have (its length, for a vector).
struct Part {
  std::string name;
  int64_t rows;
};

std::string shape_text(const int64_t* shape, int32_t ndim) {
  std::string text = "[";
  for (int32_t i = 0; i < std::min(ndim, 4); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

class Loader {
 public:
  Loader(const Config& config, int32_t dtype, DeviceRef device, const mortise_weight_reader& reader)
      : config_(config), dtype_(dtype), device_(device), reader_(reader) {}

  Weights load() const {
    Weights weights;
    const int32_t use = MORTISE_WEIGHT_EMBEDDING | (config_.tied_embeddings ? MORTISE_WEIGHT_LINEAR : 0);
    weights.embedding = matrix({{"model.embed_tokens.weight", config_.vocab_size}}, config_.hidden_size, use);
    for (int32_t i = 0; i < config_.num_layers; ++i) {
      weights.layers.push_back(layer("model.layers." + std::to_string(i) + "."));
    }
    weights.final_norm = vector({{"model.norm.weight", config_.hidden_size}});
    if (!config_.tied_embeddings)
      weights.lm_head = linear({{"lm_head.weight", config_.vocab_size}}, config_.hidden_size);
    return weights;
  }

 private:
  LayerWeights layer(const std::string& prefix) const {
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    const int64_t hidden = config_.hidden_size;
    const int64_t intermediate = config_.intermediate_size;
    const int64_t q = config_.q_columns();
    const int64_t kv = config_.kv_columns();

    LayerWeights out;
    out.input_norm = vector({{prefix + "input_layernorm.weight", hidden}});
    out.qkv =
        linear({{attention + "q_proj.weight", q}, {attention + "k_proj.weight", kv}, {attention + "v_proj.weight", kv}},
               hidden);
    if (config_.qkv_bias) {
      out.qkv_bias =
          vector({{attention + "q_proj.bias", q}, {attention + "k_proj.bias", kv}, {attention + "v_proj.bias", kv}});
    }
    if (config_.qk_norm) {
      out.q_norm = vector({{attention + "q_norm.weight", config_.head_dim}});
      out.k_norm = vector({{attention + "k_norm.weight", config_.head_dim}});
    }
    out.o = linear({{attention + "o_proj.weight", hidden}}, q);
    if (config_.o_bias) out.o_bias = vector({{attention + "o_proj.bias", hidden}});
    out.post_attention_norm = vector({{prefix + "post_attention_layernorm.weight", hidden}});
    out.gate_up = linear({{mlp + "gate_proj.weight", intermediate}, {mlp + "up_proj.weight", intermediate}}, hidden);
    out.down = linear({{mlp + "down_proj.weight", hidden}}, intermediate);
    if (config_.mlp_bias) {
      out.gate_up_bias = vector({{mlp + "gate_proj.bias", intermediate}, {mlp + "up_proj.bias", intermediate}});
      out.down_bias = vector({{mlp + "down_proj.bias", hidden}});
    }
    return out;
  }

  Weight linear(std::initializer_list<Part> parts, int64_t columns) const {
    return matrix(parts, columns, MORTISE_WEIGHT_LINEAR);
  }
  Weight matrix(std::initializer_list<Part> parts, int64_t columns, int32_t use) const {
    return prepare(parts, 2, columns, use);
  }
  Weight vector(std::initializer_list<Part> parts) const { return prepare(parts, 1, 1, MORTISE_WEIGHT_VECTOR); }

  Weight prepare(std::initializer_list<Part> parts, int32_t ndim, int64_t columns, int32_t use) const {
    std::array<mortise_tensor, 3> tensors;
    std::array<const mortise_tensor*, 3> pointers;
    int32_t num_parts = 0;
    for (const Part& part : parts) {
      tensors[num_parts] = read(part, ndim, columns);
      pointers[num_parts] = &tensors[num_parts];
      ++num_parts;
    }
    auto source = sized<mortise_weight_source>();
    source.use = use;
    source.num_parts = num_parts;
    source.parts = pointers.data();
    source.dtype = dtype_;
    mortise_weight* weight = nullptr;
    mortise_error error = make_error();
    const mortise_status status = device_.table->prepare_weight(device_.device, &source, &weight, &error);
    if (status != MORTISE_OK) throw Failure(status, "load", parts.begin()->name + ": " + error.message);
    return Weight(weight, WeightDeleter{device_});
  }

  mortise_tensor read(const Part& part, int32_t ndim, int64_t columns) const {
    auto tensor = sized<mortise_tensor>();
    const int64_t expected[2] = {part.rows, columns};
    const mortise_status status = reader_.get(reader_.context, view(std::string_view(part.name)), &tensor);
    if (status != MORTISE_OK) {
      const bool head = part.name == "lm_head.weight";
      throw Failure(MORTISE_DATA_LOSS, "load",
                    part.name + ": the checkpoint has no such tensor; expected shape " + shape_text(expected, ndim) +
                        (head ? "; a model without it sets tie_word_embeddings in config.json" : ""));
    }
    const bool fits = tensor.ndim == ndim && tensor.shape[0] == part.rows && (ndim == 1 || tensor.shape[1] == columns);
    if (!fits) {
      throw Failure(MORTISE_DATA_LOSS, "load",
                    part.name + ": found shape " + shape_text(tensor.shape, tensor.ndim) + ", expected " +
                        shape_text(expected, ndim) + " after config.json");
    }
    if (tensor.dtype != MORTISE_BF16 && tensor.dtype != MORTISE_F16 && tensor.dtype != MORTISE_F32) {
      throw Failure(MORTISE_DATA_LOSS, "load", part.name + ": its type is not bf16, f16 or f32");
    }
    return tensor;
  }

  const Config& config_;
  const int32_t dtype_;
  const DeviceRef device_;
  const mortise_weight_reader& reader_;
};

}  // namespace

Weights load_weights(const Config& config, int32_t dtype, DeviceRef device, const mortise_weight_reader& reader) {
  return Loader(config, dtype, device, reader).load();
}

}  // namespace mortise::llama
