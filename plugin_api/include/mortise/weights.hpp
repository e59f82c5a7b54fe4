// mortise/weights.hpp: C++ helpers for plugins that load a checkpoint (models, and proposers with weights of their
// own). Not part of the ABI: they are compiled into the plugin, like plugin.hpp. C++20. Since 0.3. model.h has the
// reader's contract. Functions without a class keep no state, so any thread may call them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mortise/device.hpp"
#include "mortise/model.h"

namespace mortise {

// One prepared matrix of a linear layer, its bias (null: none), and the number of output columns that it makes.
struct Piece {
  Weight weight, bias;
  int64_t columns = 0;
};
// A linear layer: the columns of its output, from left to right, are those of its pieces. Usually there is one piece.
using Linear = std::vector<Piece>;

// How a model stores its weights. `dtype` is the type that it computes in. The layers' matrices are stored in dtype if
// bits is 0, else as bits, group_size and value_type say (mortise_weight_source). Norms, biases and the embedding are
// stored in dtype. With integer layers, the head is stored as 8-bit integers with one scale for each row, or, if their
// activations are in blocks of 32, for each 32 columns: it is more sensitive than a layer, and a small part of a large
// model. With FP8 layers the head is stored as FP8, with MXFP4 layers in dtype. With `as_float` the reader's quantised
// matrices are not asked for, but the floats that they stand for, which a reader of a GGUF file has.
struct WeightFormat {
  int32_t dtype = 0;
  int32_t bits = 0;
  int32_t group_size = 0;
  int32_t value_type = 0;
  bool as_float = false;

  // Whether the head is stored in dtype, if the checkpoint has it in floats.
  bool head_in_dtype() const { return bits == 0 || value_type == MORTISE_F4_E2M1; }
};

// The name of a tensor in the checkpoint, or of a module ("...q_proj", without ".weight"), the number of rows that it
// must have, and which of them are loaded. A vector's number of rows is its length.
struct CheckpointTensor {
  std::string name;
  int64_t rows;
  int64_t first = 0;   // of the rows that are loaded
  int64_t count = -1;  // how many; -1: all from `first` on

  int64_t num_loaded() const { return count < 0 ? rows - first : count; }
};

// The part `rank` of `total` rows, columns or heads that ranks divide evenly. REQUIRES: total is a multiple of world.
inline CheckpointTensor part_of(std::string name, int64_t total, int32_t rank, int32_t world) {
  return {std::move(name), total, total / world * rank, total / world};
}

// How the checkpoint stores the matrix of a linear layer. In torch's Linear each row makes one output, in GPT-2's
// Conv1D each column does.
enum class MatrixLayout { kOutputRows, kOutputColumns };

// Reads tensors of a checkpoint, checks their shapes and prepares them on the device. Projections that read the same
// input become one weight ([q; k; v]), which the device concatenates; in a quantised checkpoint only if they are
// quantised alike. All functions throw a Failure: DATA_LOSS for a tensor that is missing or has a wrong shape, with its
// name, the shape found and the shape expected; the device's status if the device refuses the weight. An object is for
// one thread at a time. Invariant: it keeps none of the weights that it returns.
class WeightLoader {
 public:
  // The references must outlive the loader.
  WeightLoader(const WeightFormat& format, DeviceRef device, const mortise_weight_reader& reader,
               MatrixLayout layout = MatrixLayout::kOutputRows)
      : format_(format), device_(device), reader_(reader), layout_(layout) {}

  // Whether the checkpoint has the tensor.
  bool has(const std::string& tensor) const;

  // Loads up to three modules that read the same input, whose rows have `columns` elements, as one layer. Adjacent
  // modules become one piece if their matrices are quantised alike, or not at all.
  Linear linear(std::initializer_list<CheckpointTensor> modules, int64_t columns, bool with_bias) const;
  // Loads the embedding [rows, columns], from which rows are looked up. With `also_head` the same weight is the head.
  // With `world` ranks, only the columns of `rank`.
  Weight embedding(const CheckpointTensor& part, int64_t columns, bool also_head, int32_t rank = 0,
                   int32_t world = 1) const;
  // Whether one weight can be a tied embedding and the head: if both are stored in dtype. Rows of integers cannot be
  // looked up, so that the head of a quantised embedding is a weight of its own.
  bool embedding_is_head(const CheckpointTensor& part, int64_t columns) const;
  // Loads a head that is not the embedding. WeightFormat says how it is stored.
  Weight head(const CheckpointTensor& part, int64_t columns) const;
  // Throws if the checkpoint also has an lm_head.weight that differs from the embedding, which the configuration says
  // is the head. transformers 5 takes one or the other, depending on its release.
  void require_tied(const CheckpointTensor& embedding, int64_t columns) const;
  // Loads a norm's weight or a bias.
  Weight vector(const CheckpointTensor& part) const;
  // Makes a vector that is not in the checkpoint.
  Weight constant_vector(int64_t length, float value) const;
  // Loads a matrix [rows, columns], multiplied by `factor`.
  Weight scaled_matrix(const CheckpointTensor& part, int64_t columns, float factor) const;
  // Returns the tensor's values in f32, row-major without gaps. A vector's shape has one number.
  std::vector<float> values(const std::string& name, std::span<const int64_t> shape) const;

 private:
  std::optional<mortise_quantized_matrix> find_quantized(const CheckpointTensor& part, int64_t columns) const;
  Weight prepare_matrix(std::span<const CheckpointTensor> parts, int64_t columns) const;
  Weight prepare_quantized(std::span<const CheckpointTensor> parts,
                           std::span<const std::optional<mortise_quantized_matrix>> matrices) const;
  Weight prepare_vectors(std::span<const CheckpointTensor> parts) const;
  Weight prepare(std::span<const mortise_tensor> tensors, int32_t use, int32_t bits, int32_t group_size,
                 std::string_view name) const;
  Weight prepared(mortise_weight_source& source, std::string_view name) const;
  mortise_tensor read(const std::string& name, std::span<const int64_t> shape) const;
  mortise_tensor read_rows(const CheckpointTensor& part, int64_t columns, MatrixLayout layout) const;

  const WeightFormat& format_;
  const DeviceRef device_;
  const mortise_weight_reader& reader_;
  const MatrixLayout layout_;
};

namespace weights_detail {

inline constexpr std::size_t kMaxParts = 3;  // q, k and v

inline std::string shape_text(const int64_t* shape, std::size_t ndim) {
  std::string text = "[";
  for (std::size_t i = 0; i < std::min<std::size_t>(ndim, 4); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

// The key of a weight: the names of its tensors, and which rows if not all are loaded.
inline std::string joined_names(std::span<const CheckpointTensor> parts) {
  std::string names;
  for (const CheckpointTensor& part : parts) {
    names += (names.empty() ? "" : " ") + part.name;
    if (part.num_loaded() == part.rows) continue;
    names += " rows " + std::to_string(part.first) + "-" + std::to_string(part.first + part.num_loaded() - 1);
  }
  return names;
}

// Some rows of a quantised matrix, which must outlive it, as a matrix. Its address is the context of the matrix.
struct QuantizedRows {
  const mortise_quantized_matrix* all = nullptr;
  int64_t first = 0;

  mortise_quantized_matrix matrix(int64_t count) {
    mortise_quantized_matrix rows = *all;
    rows.n = count;
    rows.context = this;
    rows.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t* zeros) {
      const auto& self = *static_cast<const QuantizedRows*>(context);
      self.all->read(self.all->context, self.first + n0, self.first + n1, values, scales, zeros);
    };
    return rows;
  }
};

// Leaves of a tensor the rows that `part` loads.
inline void keep_rows(mortise_tensor& tensor, const CheckpointTensor& part) {
  const int64_t skipped = part.first * tensor.stride[0] * dtype_bytes(tensor.dtype);
  tensor.data = static_cast<char*>(tensor.data) + skipped;
  tensor.bytes -= static_cast<uint64_t>(skipped);
  tensor.shape[0] = part.num_loaded();
}

inline float f16_to_f32(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return fraction != 0 ? NAN : (half & 0x8000) != 0 ? -INFINITY : INFINITY;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                        : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

inline float widened(const mortise_tensor& tensor, int64_t at) {
  if (tensor.dtype == MORTISE_F32) return static_cast<const float*>(tensor.data)[at];
  const uint16_t half = static_cast<const uint16_t*>(tensor.data)[at];
  return tensor.dtype == MORTISE_F16 ? f16_to_f32(half) : std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

inline bool alike(const std::optional<mortise_quantized_matrix>& a, const std::optional<mortise_quantized_matrix>& b) {
  if (!a || !b) return !a && !b;
  const bool same_order = (a->order == nullptr) == (b->order == nullptr) &&
                          (a->order == nullptr || std::equal(a->order, a->order + a->k, b->order));
  return a->bits == b->bits && a->group_size == b->group_size && a->value_type == b->value_type &&
         a->flags == b->flags && a->zero == b->zero && same_order;
}

}  // namespace weights_detail

inline bool WeightLoader::has(const std::string& tensor) const {
  auto found = sized<mortise_tensor>();
  return reader_.get(reader_.context, view(std::string_view(tensor)), &found) == MORTISE_OK;
}

inline Linear WeightLoader::linear(std::initializer_list<CheckpointTensor> modules, int64_t columns,
                                   bool with_bias) const {
  std::vector<CheckpointTensor> weights, biases;
  std::vector<std::optional<mortise_quantized_matrix>> quantized;
  for (const CheckpointTensor& module : modules) {
    weights.push_back({module.name + ".weight", module.rows, module.first, module.count});
    biases.push_back({module.name + ".bias", module.rows, module.first, module.count});
    quantized.push_back(find_quantized(weights.back(), columns));
  }
  Linear out;
  for (std::size_t first = 0, end = 0; first < weights.size(); first = end) {
    for (end = first + 1; end < weights.size() && weights_detail::alike(quantized[first], quantized[end]);) ++end;
    const std::span<const CheckpointTensor> parts(&weights[first], end - first);
    Piece piece;
    piece.weight =
        quantized[first] ? prepare_quantized(parts, {&quantized[first], end - first}) : prepare_matrix(parts, columns);
    if (with_bias) piece.bias = prepare_vectors({&biases[first], end - first});
    for (const CheckpointTensor& part : parts) piece.columns += part.num_loaded();
    out.push_back(std::move(piece));
  }
  return out;
}

inline Weight WeightLoader::embedding(const CheckpointTensor& part, int64_t columns, bool also_head, int32_t rank,
                                      int32_t world) const {
  mortise_tensor tensor = read_rows(part, columns, MatrixLayout::kOutputRows);
  const int64_t own = columns / world, skipped = own * rank * tensor.stride[1] * dtype_bytes(tensor.dtype);
  tensor.data = static_cast<char*>(tensor.data) + skipped;
  tensor.bytes -= static_cast<uint64_t>(skipped);
  tensor.shape[1] = own;
  std::string name = weights_detail::joined_names({&part, 1});
  if (world > 1) name += " columns of rank " + std::to_string(rank) + " of " + std::to_string(world);
  return prepare({&tensor, 1}, MORTISE_WEIGHT_EMBEDDING | (also_head ? MORTISE_WEIGHT_LINEAR : 0), 0, 0, name);
}

inline bool WeightLoader::embedding_is_head(const CheckpointTensor& part, int64_t columns) const {
  return format_.head_in_dtype() && !find_quantized(part, columns);
}

inline Weight WeightLoader::head(const CheckpointTensor& part, int64_t columns) const {
  const auto quantized = find_quantized(part, columns);
  if (quantized) return prepare_quantized({&part, 1}, {&quantized, 1});
  const mortise_tensor tensor = read_rows(part, columns, MatrixLayout::kOutputRows);
  const int32_t group_size = format_.value_type == MORTISE_I8_BLOCK32 ? 32 : 0;
  return prepare({&tensor, 1}, MORTISE_WEIGHT_LINEAR, format_.head_in_dtype() ? 0 : 8, group_size,
                 weights_detail::joined_names({&part, 1}));
}

inline void WeightLoader::require_tied(const CheckpointTensor& embedding, int64_t columns) const {
  constexpr const char* kHead = "lm_head.weight";
  if (!has(kHead)) return;
  const int64_t shape[] = {embedding.rows, columns};
  const mortise_tensor a = read(embedding.name, shape), b = read(kHead, shape);
  bool same = a.dtype == b.dtype;
  const int64_t bytes = dtype_bytes(a.dtype);
  for (int64_t row = 0; same && row < embedding.rows; ++row) {
    same = std::memcmp(static_cast<const char*>(a.data) + row * a.stride[0] * bytes,
                       static_cast<const char*>(b.data) + row * b.stride[0] * bytes,
                       static_cast<std::size_t>(columns * bytes)) == 0;
  }
  if (same) return;
  throw Failure(MORTISE_DATA_LOSS, "load",
                std::string(kHead) + " differs from " + embedding.name +
                    ", but by config.json they are one (tie_word_embeddings, whose default depends on the family); " +
                    "set it to false to use " + kHead + ", or remove this tensor");
}

inline Weight WeightLoader::vector(const CheckpointTensor& part) const {
  return prepare_vectors({&part, 1});
}

inline Weight WeightLoader::constant_vector(int64_t length, float value) const {
  std::vector<float> values(static_cast<std::size_t>(length), value);
  mortise_tensor tensor = make_tensor(values.data(), MORTISE_F32, length, 1);
  tensor.ndim = 1;
  return prepare({&tensor, 1}, MORTISE_WEIGHT_VECTOR, 0, 0, "");
}

inline Weight WeightLoader::scaled_matrix(const CheckpointTensor& part, int64_t columns, float factor) const {
  const int64_t shape[] = {part.rows, columns};
  std::vector<float> scaled = values(part.name, shape);
  for (float& value : scaled) value *= factor;
  const mortise_tensor tensor = make_tensor(scaled.data(), MORTISE_F32, part.rows, columns);
  // The empty name keeps the weight out of the file of prepared weights: with another factor it would be another
  // weight.
  return prepare({&tensor, 1}, MORTISE_WEIGHT_LINEAR, format_.bits, format_.group_size, "");
}

inline std::vector<float> WeightLoader::values(const std::string& name, std::span<const int64_t> shape) const {
  const mortise_tensor tensor = read(name, shape);
  const int64_t columns = shape.size() == 2 ? shape[1] : 1;
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(shape[0] * columns));
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = i * tensor.stride[0] + (shape.size() == 2 ? j * tensor.stride[1] : 0);
      out.push_back(weights_detail::widened(tensor, at));
    }
  }
  return out;
}

// Returns the quantised matrix that the checkpoint has instead of this tensor; nullopt if the checkpoint has the tensor
// itself. Throws DATA_LOSS if the shape is wrong.
inline std::optional<mortise_quantized_matrix> WeightLoader::find_quantized(const CheckpointTensor& part,
                                                                            int64_t columns) const {
  if (format_.as_float || !MORTISE_HAS(&reader_, get_quantized)) return std::nullopt;
  auto matrix = sized<mortise_quantized_matrix>();
  mortise_error error = make_error();
  const mortise_status status =
      reader_.get_quantized(reader_.context, view(std::string_view(part.name)), &matrix, &error);
  if (status == MORTISE_NOT_FOUND) return std::nullopt;
  if (status != MORTISE_OK) throw Failure(status, "load", error.message);
  if (matrix.n != part.rows || matrix.k != columns) {
    const int64_t found[2] = {matrix.n, matrix.k}, expected[2] = {part.rows, columns};
    throw Failure(MORTISE_DATA_LOSS, "load",
                  part.name + ": found quantised shape " + weights_detail::shape_text(found, 2) + ", expected " +
                      weights_detail::shape_text(expected, 2) + " according to config.json");
  }
  return matrix;
}

inline Weight WeightLoader::prepare_matrix(std::span<const CheckpointTensor> parts, int64_t columns) const {
  std::array<mortise_tensor, weights_detail::kMaxParts> tensors;
  for (std::size_t i = 0; i < parts.size(); ++i) tensors[i] = read_rows(parts[i], columns, layout_);
  return prepare({tensors.data(), parts.size()}, MORTISE_WEIGHT_LINEAR, format_.bits, format_.group_size,
                 weights_detail::joined_names(parts));
}

inline Weight WeightLoader::prepare_quantized(std::span<const CheckpointTensor> parts,
                                              std::span<const std::optional<mortise_quantized_matrix>> matrices) const {
  std::array<weights_detail::QuantizedRows, weights_detail::kMaxParts> rows;
  std::array<mortise_quantized_matrix, weights_detail::kMaxParts> loaded;
  std::array<const mortise_quantized_matrix*, weights_detail::kMaxParts> pointers;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    rows[i] = {&*matrices[i], parts[i].first};
    loaded[i] = rows[i].matrix(parts[i].num_loaded());
    pointers[i] = &loaded[i];
  }
  auto source = sized<mortise_weight_source>();
  source.use = MORTISE_WEIGHT_LINEAR;
  source.num_parts = static_cast<int32_t>(parts.size());
  source.quantized = pointers.data();
  source.bits = matrices[0]->bits;
  source.group_size = matrices[0]->group_size;
  source.value_type = matrices[0]->value_type;
  return prepared(source, weights_detail::joined_names(parts));
}

inline Weight WeightLoader::prepare_vectors(std::span<const CheckpointTensor> parts) const {
  std::array<mortise_tensor, weights_detail::kMaxParts> tensors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    tensors[i] = read(parts[i].name, {&parts[i].rows, 1});
    weights_detail::keep_rows(tensors[i], parts[i]);
  }
  return prepare({tensors.data(), parts.size()}, MORTISE_WEIGHT_VECTOR, 0, 0, weights_detail::joined_names(parts));
}

inline Weight WeightLoader::prepare(std::span<const mortise_tensor> tensors, int32_t use, int32_t bits,
                                    int32_t group_size, std::string_view name) const {
  std::array<const mortise_tensor*, weights_detail::kMaxParts> pointers;
  for (std::size_t i = 0; i < tensors.size(); ++i) pointers[i] = &tensors[i];
  auto source = sized<mortise_weight_source>();
  source.use = use;
  source.num_parts = static_cast<int32_t>(tensors.size());
  source.parts = pointers.data();
  source.bits = bits;
  source.group_size = group_size;
  source.value_type = bits == 0 ? 0 : format_.value_type;
  return prepared(source, name);
}

inline Weight WeightLoader::prepared(mortise_weight_source& source, std::string_view name) const {
  source.dtype = format_.dtype;
  source.name = view(name);
  mortise_weight* weight = nullptr;
  mortise_error error = make_error();
  const mortise_status status = device_.table->prepare_weight(device_.device, &source, &weight, &error);
  if (status != MORTISE_OK) {
    throw Failure(status, "load", std::string(name.substr(0, name.find(' '))) + ": " + error.message);
  }
  return Weight(weight, WeightDeleter{device_});
}

inline mortise_tensor WeightLoader::read(const std::string& name, std::span<const int64_t> shape) const {
  auto tensor = sized<mortise_tensor>();
  const mortise_status status = reader_.get(reader_.context, view(std::string_view(name)), &tensor);
  if (status == MORTISE_RESOURCE_EXHAUSTED) {
    throw Failure(status, "load", name + ": its floats do not fit into memory; use a smaller model or more memory");
  }
  if (status != MORTISE_OK) {
    const bool head = name == "lm_head.weight";
    throw Failure(MORTISE_DATA_LOSS, "load",
                  name + ": the checkpoint has no such tensor; expected shape " +
                      weights_detail::shape_text(shape.data(), shape.size()) +
                      (head ? "; if the head is the embedding, set tie_word_embeddings in config.json" : ""));
  }
  const bool fits = tensor.ndim == static_cast<int32_t>(shape.size()) &&
                    std::equal(shape.begin(), shape.end(), static_cast<const int64_t*>(tensor.shape));
  if (!fits) {
    throw Failure(MORTISE_DATA_LOSS, "load",
                  name + ": found shape " +
                      weights_detail::shape_text(tensor.shape, static_cast<std::size_t>(std::max(0, tensor.ndim))) +
                      ", expected " + weights_detail::shape_text(shape.data(), shape.size()) +
                      " according to config.json");
  }
  if (tensor.dtype != MORTISE_BF16 && tensor.dtype != MORTISE_F16 && tensor.dtype != MORTISE_F32) {
    throw Failure(MORTISE_DATA_LOSS, "load", name + ": its type is not bf16, f16 or f32");
  }
  return tensor;
}

// Reads a matrix as rows of outputs, and leaves the rows that `part` loads.
inline mortise_tensor WeightLoader::read_rows(const CheckpointTensor& part, int64_t columns,
                                              MatrixLayout layout) const {
  const bool by_rows = layout == MatrixLayout::kOutputRows;
  const int64_t shape[] = {by_rows ? part.rows : columns, by_rows ? columns : part.rows};
  mortise_tensor tensor = read(part.name, shape);
  if (!by_rows) {
    std::swap(tensor.shape[0], tensor.shape[1]);
    std::swap(tensor.stride[0], tensor.stride[1]);
  }
  weights_detail::keep_rows(tensor, part);
  return tensor;
}

}  // namespace mortise
