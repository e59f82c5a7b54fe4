#include "models/llama/weights.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "mortise/plugin.hpp"

namespace mortise::llama {
namespace {

// A tensor of the checkpoint (or the module whose it is) with the number of rows it must have (its length, for a
// vector).
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
  Loader(const Config& config, const WeightFormat& format, DeviceRef device, const mortise_weight_reader& reader)
      : config_(config), format_(format), device_(device), reader_(reader) {}

  Weights load() const {
    Weights weights;
    const bool shared = config_.tied_embeddings && format_.bits == 0;
    const int32_t use = MORTISE_WEIGHT_EMBEDDING | (shared ? MORTISE_WEIGHT_LINEAR : 0);
    const Part embedding = {"model.embed_tokens.weight", config_.vocab_size};
    weights.embedding = prepare({&embedding, 1}, 2, config_.hidden_size, use);
    for (int32_t i = 0; i < config_.num_layers; ++i) {
      weights.layers.push_back(layer("model.layers." + std::to_string(i) + "."));
    }
    weights.final_norm = vector({"model.norm.weight", config_.hidden_size});
    if (!shared)
      weights.lm_head = head(config_.tied_embeddings ? embedding : Part{"lm_head.weight", config_.vocab_size});
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
    out.input_norm = vector({prefix + "input_layernorm.weight", hidden});
    out.qkv = linear({{attention + "q_proj", q}, {attention + "k_proj", kv}, {attention + "v_proj", kv}}, hidden,
                     config_.qkv_bias);
    if (config_.qk_norm) {
      out.q_norm = vector({attention + "q_norm.weight", config_.head_dim});
      out.k_norm = vector({attention + "k_norm.weight", config_.head_dim});
    }
    out.o = linear({{attention + "o_proj", hidden}}, q, config_.o_bias);
    out.post_attention_norm = vector({prefix + "post_attention_layernorm.weight", hidden});
    out.gate_up =
        linear({{mlp + "gate_proj", intermediate}, {mlp + "up_proj", intermediate}}, hidden, config_.mlp_bias);
    out.down = linear({{mlp + "down_proj", hidden}}, intermediate, config_.mlp_bias);
    return out;
  }

  // `modules` read the same input. Neighbours whose weights are of one kind become one piece.
  Linear linear(std::initializer_list<Part> modules, int64_t columns, bool with_bias) const {
    std::vector<Part> weights, biases;
    std::vector<std::optional<mortise_quantized_matrix>> quantized;
    for (const Part& module : modules) {
      weights.push_back({module.name + ".weight", module.rows});
      biases.push_back({module.name + ".bias", module.rows});
      quantized.push_back(find_quantized(weights.back(), columns));
    }
    Linear out;
    for (std::size_t first = 0, end = 0; first < weights.size(); first = end) {
      for (end = first + 1; end < weights.size() && alike(quantized[first], quantized[end]);) ++end;
      const std::span<const Part> parts(&weights[first], end - first);
      Piece piece;
      piece.weight = quantized[first]
                         ? prepare_quantized(parts, {&quantized[first], end - first})
                         : prepare(parts, 2, columns, MORTISE_WEIGHT_LINEAR, format_.bits, format_.group_size);
      if (with_bias) piece.bias = prepare({&biases[first], end - first}, 1, 1, MORTISE_WEIGHT_VECTOR);
      for (const Part& part : parts) piece.columns += part.rows;
      out.push_back(std::move(piece));
    }
    return out;
  }

  Weight head(const Part& part) const {
    const auto quantized = find_quantized(part, config_.hidden_size);
    if (quantized) return prepare_quantized({&part, 1}, {&quantized, 1});
    return prepare({&part, 1}, 2, config_.hidden_size, MORTISE_WEIGHT_LINEAR, format_.bits == 0 ? 0 : 8);
  }

  Weight vector(const Part& part) const { return prepare({&part, 1}, 1, 1, MORTISE_WEIGHT_VECTOR); }

  static bool alike(const std::optional<mortise_quantized_matrix>& a,
                    const std::optional<mortise_quantized_matrix>& b) {
    if (!a || !b) return !a && !b;
    const bool same_order = (a->order == nullptr) == (b->order == nullptr) &&
                            (a->order == nullptr || std::equal(a->order, a->order + a->k, b->order));
    return a->bits == b->bits && a->group_size == b->group_size && same_order;
  }

  // The matrix if the checkpoint has it quantised.
  std::optional<mortise_quantized_matrix> find_quantized(const Part& part, int64_t columns) const {
    if (!MORTISE_HAS(&reader_, get_quantized)) return std::nullopt;
    auto matrix = sized<mortise_quantized_matrix>();
    mortise_error error = make_error();
    const mortise_status status =
        reader_.get_quantized(reader_.context, view(std::string_view(part.name)), &matrix, &error);
    if (status == MORTISE_NOT_FOUND) return std::nullopt;
    if (status != MORTISE_OK) throw Failure(status, "load", error.message);
    if (matrix.n != part.rows || matrix.k != columns) {
      const int64_t found[2] = {matrix.n, matrix.k}, expected[2] = {part.rows, columns};
      throw Failure(MORTISE_DATA_LOSS, "load",
                    part.name + ": found quantised shape " + shape_text(found, 2) + ", expected " +
                        shape_text(expected, 2) + " after config.json");
    }
    return matrix;
  }

  Weight prepare(std::span<const Part> parts, int32_t ndim, int64_t columns, int32_t use, int32_t bits = 0,
                 int32_t group_size = 0) const {
    std::array<mortise_tensor, 3> tensors;
    std::array<const mortise_tensor*, 3> pointers;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      tensors[i] = read(parts[i], ndim, columns);
      pointers[i] = &tensors[i];
    }
    auto source = sized<mortise_weight_source>();
    source.use = use;
    source.num_parts = static_cast<int32_t>(parts.size());
    source.parts = pointers.data();
    source.bits = bits;
    source.group_size = group_size;
    return prepared(source, parts);
  }

  Weight prepare_quantized(std::span<const Part> parts,
                           std::span<const std::optional<mortise_quantized_matrix>> matrices) const {
    std::array<const mortise_quantized_matrix*, 3> pointers;
    for (std::size_t i = 0; i < matrices.size(); ++i) pointers[i] = &*matrices[i];
    auto source = sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR;
    source.num_parts = static_cast<int32_t>(parts.size());
    source.quantized = pointers.data();
    source.bits = matrices[0]->bits;
    source.group_size = matrices[0]->group_size;
    return prepared(source, parts);
  }

  Weight prepared(mortise_weight_source& source, std::span<const Part> parts) const {
    source.dtype = format_.dtype;
    std::string name;
    for (const Part& part : parts) name += (name.empty() ? "" : " ") + part.name;
    source.name = view(std::string_view(name));
    mortise_weight* weight = nullptr;
    mortise_error error = make_error();
    const mortise_status status = device_.table->prepare_weight(device_.device, &source, &weight, &error);
    if (status != MORTISE_OK) throw Failure(status, "load", parts.front().name + ": " + error.message);
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
  const WeightFormat& format_;
  const DeviceRef device_;
  const mortise_weight_reader& reader_;
};

}  // namespace

Weights load_weights(const Config& config, const WeightFormat& format, DeviceRef device,
                     const mortise_weight_reader& reader) {
  return Loader(config, format, device, reader).load();
}

}  // namespace mortise::llama
