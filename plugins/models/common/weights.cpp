#include "models/common/weights.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace mortise::models {
namespace {

constexpr std::size_t kMaxParts = 3;  // q, k and v

std::string shape_text(const int64_t* shape, std::size_t ndim) {
  std::string text = "[";
  for (std::size_t i = 0; i < std::min<std::size_t>(ndim, 4); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::string joined_names(std::span<const Part> parts) {
  std::string names;
  for (const Part& part : parts) names += (names.empty() ? "" : " ") + part.name;
  return names;
}

float f16_to_f32(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return fraction != 0 ? NAN : (half & 0x8000) != 0 ? -INFINITY : INFINITY;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                        : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

float widened(const mortise_tensor& tensor, int64_t at) {
  if (tensor.dtype == MORTISE_F32) return static_cast<const float*>(tensor.data)[at];
  const uint16_t half = static_cast<const uint16_t*>(tensor.data)[at];
  return tensor.dtype == MORTISE_F16 ? f16_to_f32(half) : std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

bool alike(const std::optional<mortise_quantized_matrix>& a, const std::optional<mortise_quantized_matrix>& b) {
  if (!a || !b) return !a && !b;
  const bool same_order = (a->order == nullptr) == (b->order == nullptr) &&
                          (a->order == nullptr || std::equal(a->order, a->order + a->k, b->order));
  return a->bits == b->bits && a->group_size == b->group_size && same_order;
}

}  // namespace

bool WeightLoader::has(const std::string& tensor) const {
  auto found = sized<mortise_tensor>();
  return reader_.get(reader_.context, view(std::string_view(tensor)), &found) == MORTISE_OK;
}

Linear WeightLoader::linear(std::initializer_list<Part> modules, int64_t columns, bool with_bias) const {
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
    piece.weight =
        quantized[first] ? prepare_quantized(parts, {&quantized[first], end - first}) : prepare_matrix(parts, columns);
    if (with_bias) piece.bias = prepare_vectors({&biases[first], end - first});
    for (const Part& part : parts) piece.columns += part.rows;
    out.push_back(std::move(piece));
  }
  return out;
}

Weight WeightLoader::embedding(const Part& part, int64_t columns, bool also_head, int64_t skipped_rows) const {
  const int64_t shape[] = {part.rows + skipped_rows, columns};
  mortise_tensor tensor = read(part.name, shape);
  const int64_t skipped_bytes = skipped_rows * tensor.stride[0] * dtype_bytes(tensor.dtype);
  tensor.data = static_cast<char*>(tensor.data) + skipped_bytes;
  tensor.bytes -= static_cast<uint64_t>(skipped_bytes);
  tensor.shape[0] = part.rows;
  const std::string from = skipped_rows == 0 ? "" : " from row " + std::to_string(skipped_rows);
  return prepare({&tensor, 1}, MORTISE_WEIGHT_EMBEDDING | (also_head ? MORTISE_WEIGHT_LINEAR : 0), 0, 0,
                 part.name + from);
}

Weight WeightLoader::head(const Part& part, int64_t columns) const {
  const auto quantized = find_quantized(part, columns);
  if (quantized) return prepare_quantized({&part, 1}, {&quantized, 1});
  const int64_t shape[] = {part.rows, columns};
  const mortise_tensor tensor = read(part.name, shape);
  return prepare({&tensor, 1}, MORTISE_WEIGHT_LINEAR, format_.bits == 0 ? 0 : 8, 0, part.name);
}

Weight WeightLoader::vector(const Part& part) const {
  return prepare_vectors({&part, 1});
}

Weight WeightLoader::constant_vector(int64_t length, float value) const {
  std::vector<float> values(static_cast<std::size_t>(length), value);
  mortise_tensor tensor = make_tensor(values.data(), MORTISE_F32, length, 1);
  tensor.ndim = 1;
  return prepare({&tensor, 1}, MORTISE_WEIGHT_VECTOR, 0, 0, "");
}

Weight WeightLoader::scaled_matrix(const Part& part, int64_t columns, float factor) const {
  const int64_t shape[] = {part.rows, columns};
  std::vector<float> scaled = values(part.name, shape);
  for (float& value : scaled) value *= factor;
  const mortise_tensor tensor = make_tensor(scaled.data(), MORTISE_F32, part.rows, columns);
  // Another factor would be another weight of this name: it is not kept.
  return prepare({&tensor, 1}, MORTISE_WEIGHT_LINEAR, format_.bits, format_.group_size, "");
}

std::vector<float> WeightLoader::values(const std::string& name, std::span<const int64_t> shape) const {
  const mortise_tensor tensor = read(name, shape);
  const int64_t columns = shape.size() == 2 ? shape[1] : 1;
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(shape[0] * columns));
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = i * tensor.stride[0] + (shape.size() == 2 ? j * tensor.stride[1] : 0);
      out.push_back(widened(tensor, at));
    }
  }
  return out;
}

// The matrix if the checkpoint has it quantised.
std::optional<mortise_quantized_matrix> WeightLoader::find_quantized(const Part& part, int64_t columns) const {
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

Weight WeightLoader::prepare_matrix(std::span<const Part> parts, int64_t columns) const {
  std::array<mortise_tensor, kMaxParts> tensors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (layout_ == MatrixLayout::kOutputRows) {
      const int64_t shape[] = {parts[i].rows, columns};
      tensors[i] = read(parts[i].name, shape);
    } else {
      const int64_t shape[] = {columns, parts[i].rows};
      tensors[i] = read(parts[i].name, shape);
      std::swap(tensors[i].shape[0], tensors[i].shape[1]);
      std::swap(tensors[i].stride[0], tensors[i].stride[1]);
    }
  }
  return prepare({tensors.data(), parts.size()}, MORTISE_WEIGHT_LINEAR, format_.bits, format_.group_size,
                 joined_names(parts));
}

Weight WeightLoader::prepare_quantized(std::span<const Part> parts,
                                       std::span<const std::optional<mortise_quantized_matrix>> matrices) const {
  std::array<const mortise_quantized_matrix*, kMaxParts> pointers;
  for (std::size_t i = 0; i < matrices.size(); ++i) pointers[i] = &*matrices[i];
  auto source = sized<mortise_weight_source>();
  source.use = MORTISE_WEIGHT_LINEAR;
  source.num_parts = static_cast<int32_t>(parts.size());
  source.quantized = pointers.data();
  source.bits = matrices[0]->bits;
  source.group_size = matrices[0]->group_size;
  return prepared(source, joined_names(parts));
}

Weight WeightLoader::prepare_vectors(std::span<const Part> parts) const {
  std::array<mortise_tensor, kMaxParts> tensors;
  for (std::size_t i = 0; i < parts.size(); ++i) tensors[i] = read(parts[i].name, {&parts[i].rows, 1});
  return prepare({tensors.data(), parts.size()}, MORTISE_WEIGHT_VECTOR, 0, 0, joined_names(parts));
}

Weight WeightLoader::prepare(std::span<const mortise_tensor> tensors, int32_t use, int32_t bits, int32_t group_size,
                             std::string_view name) const {
  std::array<const mortise_tensor*, kMaxParts> pointers;
  for (std::size_t i = 0; i < tensors.size(); ++i) pointers[i] = &tensors[i];
  auto source = sized<mortise_weight_source>();
  source.use = use;
  source.num_parts = static_cast<int32_t>(tensors.size());
  source.parts = pointers.data();
  source.bits = bits;
  source.group_size = group_size;
  return prepared(source, name);
}

Weight WeightLoader::prepared(mortise_weight_source& source, std::string_view name) const {
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

mortise_tensor WeightLoader::read(const std::string& name, std::span<const int64_t> shape) const {
  auto tensor = sized<mortise_tensor>();
  const mortise_status status = reader_.get(reader_.context, view(std::string_view(name)), &tensor);
  if (status != MORTISE_OK) {
    const bool head = name == "lm_head.weight";
    throw Failure(MORTISE_DATA_LOSS, "load",
                  name + ": the checkpoint has no such tensor; expected shape " +
                      shape_text(shape.data(), shape.size()) +
                      (head ? "; a model without it sets tie_word_embeddings in config.json" : ""));
  }
  const bool fits = tensor.ndim == static_cast<int32_t>(shape.size()) &&
                    std::equal(shape.begin(), shape.end(), static_cast<const int64_t*>(tensor.shape));
  if (!fits) {
    throw Failure(MORTISE_DATA_LOSS, "load",
                  name + ": found shape " +
                      shape_text(tensor.shape, static_cast<std::size_t>(std::max(0, tensor.ndim))) + ", expected " +
                      shape_text(shape.data(), shape.size()) + " after config.json");
  }
  if (tensor.dtype != MORTISE_BF16 && tensor.dtype != MORTISE_F16 && tensor.dtype != MORTISE_F32) {
    throw Failure(MORTISE_DATA_LOSS, "load", name + ": its type is not bf16, f16 or f32");
  }
  return tensor;
}

}  // namespace mortise::models
