#include "bench_command/model_cost.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "json/bounded_json.hpp"
#include "mortise/plugin.hpp"

namespace mortise::bench {
namespace {

constexpr double kGroupBytes = 5;  // a scale in f32 and a zero point in a byte
// In blocks of 32: a scale in f16, and with 4 bits a minimum in f16.
constexpr double kBlock32GroupBytes8 = 2, kBlock32GroupBytes4 = 4;
constexpr std::int64_t kBlock32 = 32;
constexpr std::string_view kHead = "lm_head.weight";

// The format of a matrix on the device.
struct Format {
  int bits;
  std::int64_t group_size;  // for integers; 0: a row is one group. Floats have no groups
  double group_bytes = kGroupBytes;
};

struct Matrix {
  std::int64_t rows, columns;
  Format format;

  double elements() const { return static_cast<double>(rows) * static_cast<double>(columns); }
  double bytes() const {
    const double values = elements() * format.bits / 8;
    if (format.bits > 8) return values;
    const std::int64_t group = format.group_size == 0 ? columns : format.group_size;
    return values + static_cast<double>(rows * ((columns + group - 1) / group)) * format.group_bytes;
  }
};

// Reads the matrices of a checkpoint and the bytes that each costs to read. Used by one thread.
class Reader {
 public:
  Reader(const Checkpoint& checkpoint, const mortise_model_dims& dims)
      : checkpoint_(checkpoint),
        float_bits_(dims.dtype == MORTISE_BF16 ? 16 : 32),
        // The other matrices of a quantised checkpoint stay floats.
        made_integer_(dims.weight_bits != 0 && !checkpoint.config().quantization),
        dims_(dims) {}

  // Returns the matrix `P.weight` that the tensor is, or whose values it holds; nullopt for any other tensor.
  std::optional<Matrix> matrix_of(const std::string& tensor, const TensorView& view) const {
    for (const std::string_view values : {".qweight", ".weight_packed", ".weight"}) {
      if (!tensor.ends_with(values)) continue;
      const std::string name = tensor.substr(0, tensor.size() - values.size()) + ".weight";
      if (const auto integers = integers_of(name)) return integers;
      if (view.shape.size() != 2) return std::nullopt;
      return Matrix{view.shape[0], view.shape[1], name == kHead ? head_format() : body_format()};
    }
    return std::nullopt;
  }

  // Returns the quantised matrix `P.weight` of the checkpoint; nullopt if there is none. A model may take all matrices
  // of a quantised GGUF file as floats (weights = "float").
  std::optional<Matrix> integers_of(const std::string& name) const {
    const auto found = dims_.weight_bits == 0 ? std::nullopt : checkpoint_.find_quantized(name);
    if (!found) return std::nullopt;
    double group_bytes = kGroupBytes;
    if (const auto& block32 = found->block32()) {
      group_bytes = static_cast<double>(block32->factor_bytes() * (block32->has_minima ? 2 : 1));
    }
    return Matrix{found->rows(), found->columns(), {found->bits(), found->group_size(), group_bytes}};
  }

  Matrix tied_head() const { return {dims_.vocab_size, dims_.hidden_size, head_format()}; }

 private:
  Format body_format() const {
    if (!made_integer_) return {float_bits_, 0};
    const double block32_bytes = dims_.weight_bits == 4 ? kBlock32GroupBytes4 : kBlock32GroupBytes8;
    return {dims_.weight_bits, dims_.weight_group_size, is_block32() ? block32_bytes : kGroupBytes};
  }
  // Returns the format of the head, which has 8 bits even if the layers have 4.
  Format head_format() const {
    if (made_integer_ && is_block32()) return {8, kBlock32, kBlock32GroupBytes8};
    return {made_integer_ ? 8 : float_bits_, 0};
  }
  bool is_block32() const { return dims_.weight_type == MORTISE_I8_BLOCK32; }

  const Checkpoint& checkpoint_;
  const int float_bits_;
  const bool made_integer_;
  const mortise_model_dims& dims_;
};

// The parts of matrices that a rank has.
class RankShares {
 public:
  RankShares(const mortise_model_dims& dims, std::int32_t num_ranks) : dims_(dims), num_ranks_(num_ranks) {}

  double of_body(const std::string& tensor, const Matrix& matrix) const {
    if (num_ranks_ == 1) return 1;
    // With fewer KV heads than ranks, several ranks have the same one.
    if (tensor.find(".k_proj.") != tensor.npos || tensor.find(".v_proj.") != tensor.npos) {
      return static_cast<double>(dims_.num_kv_heads) * dims_.head_dim / static_cast<double>(matrix.rows);
    }
    return 1.0 / num_ranks_;
  }

  // Returns the largest share: models cut the vocabulary in steps of 64 tokens.
  double of_head() const {
    constexpr std::int64_t kStep = 64;
    const std::int64_t steps = (dims_.vocab_size + kStep - 1) / kStep;
    const auto bound = [&](std::int64_t rank) {
      return std::min<std::int64_t>(dims_.vocab_size, steps * rank / num_ranks_ * kStep);
    };
    std::int64_t most = 0;
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) most = std::max(most, bound(rank + 1) - bound(rank));
    return static_cast<double>(most) / dims_.vocab_size;
  }

 private:
  const mortise_model_dims& dims_;
  const std::int32_t num_ranks_;
};

// Returns the columns between the two products of an MLP. GPT-2 has four times the hidden size if its configuration
// says nothing.
double intermediate_size(const ModelConfig& config, const mortise_model_dims& dims) {
  const nlohmann::json json = parse_json(config.json);
  for (const char* key : {"intermediate_size", "ffn_dim", "n_inner"}) {
    if (const auto size = json.find(key); size != json.end() && size->is_number()) return size->get<double>();
  }
  return 4.0 * dims.hidden_size;
}

// Adds the exchanges of a forward pass: after the embedding; after attention, o, the gated product and down of each
// layer; after the head. A rank receives all columns but its own.
void add_exchanges(const ModelConfig& config, const mortise_model_dims& dims, std::int32_t num_ranks, ModelCost& cost) {
  const double received = (num_ranks - 1.0) / num_ranks;
  const double column = received * dtype_bytes(dims.dtype), layers = dims.num_layers;
  const double all_heads = static_cast<double>(dims.num_heads) * dims.head_dim * num_ranks;
  cost.exchanges = {{1 + 2 * layers, column * dims.hidden_size},
                    {layers, column * all_heads},
                    {layers, column * intermediate_size(config, dims)}};
  cost.head_exchange_bytes = received * sizeof(float) * dims.vocab_size;
}

}  // namespace

ModelCost model_cost(const Checkpoint& checkpoint, const mortise_model_dims& dims, double kv_bytes,
                     std::int32_t num_ranks) {
  const Reader reader(checkpoint, dims);
  const RankShares shares(dims, num_ranks);
  ModelCost cost;
  Matrix head = reader.tied_head();
  const bool has_head = checkpoint.find(kHead) != nullptr;
  for (const auto& [name, view] : checkpoint.tensors()) {
    if (Checkpoint::is_embedding(name)) {
      // A quantised embedding that is the head, too, is kept as such beside its floats.
      const auto integers = has_head ? std::nullopt : reader.integers_of(name);
      if (integers && integers->rows == dims.vocab_size) head = *integers;
      continue;
    }
    const auto matrix = reader.matrix_of(name, view);
    if (!matrix) continue;
    if (name.starts_with("lm_head.")) {
      head = *matrix;
      continue;
    }
    const double share = shares.of_body(name, *matrix);
    cost.body_elements += share * matrix->elements();
    cost.weight_bytes += share * matrix->bytes();
  }
  cost.head_elements = shares.of_head() * head.elements();
  cost.weight_bytes += shares.of_head() * head.bytes();
  cost.kv_bytes = kv_bytes;
  cost.attention_width = static_cast<double>(dims.num_heads) * dims.head_dim;
  cost.windows.assign(static_cast<std::size_t>(dims.num_layers), 0);
  if (dims.sliding_windows != nullptr) {
    std::copy_n(dims.sliding_windows, cost.windows.size(), cost.windows.begin());
  }
  if (num_ranks > 1) add_exchanges(checkpoint.config(), dims, num_ranks, cost);
  return cost;
}

}  // namespace mortise::bench
