#include "bench_command/model_cost.hpp"

#include <algorithm>
#include <string>
#include <string_view>

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

}  // namespace

ModelCost model_cost(const Checkpoint& checkpoint, const mortise_model_dims& dims, double kv_bytes) {
  const Reader reader(checkpoint, dims);
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
    cost.body_elements += matrix->elements();
    cost.weight_bytes += matrix->bytes();
  }
  cost.head_elements = head.elements();
  cost.weight_bytes += head.bytes();
  cost.kv_bytes = kv_bytes;
  cost.attention_width = static_cast<double>(dims.num_heads) * dims.head_dim;
  cost.windows.assign(static_cast<std::size_t>(dims.num_layers), 0);
  if (dims.sliding_windows != nullptr) {
    std::copy_n(dims.sliding_windows, cost.windows.size(), cost.windows.begin());
  }
  return cost;
}

}  // namespace mortise::bench
