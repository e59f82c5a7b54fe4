// plugins/models/common/weights.hpp: reads the checkpoint's tensors, checks their shapes and prepares them on the
// device. Projections that read the same input become one weight ([q; k; v]), concatenated by the device; in a
// quantised checkpoint only if they are quantised alike.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mortise/model.h"
#include "mortise/plugin.hpp"

namespace mortise::models {

// The device on which the weights are prepared; both pointers live until the model is destroyed.
struct DeviceRef {
  mortise_device* device = nullptr;
  const mortise_device_table* table = nullptr;
};

struct WeightDeleter {
  DeviceRef owner;
  void operator()(mortise_weight* weight) const { owner.table->free_weight(owner.device, weight); }
};
using Weight = std::unique_ptr<mortise_weight, WeightDeleter>;  // null: the model has none

// A linear layer: the columns of its output, from left to right, are those of its pieces. Mostly one.
struct Piece {
  Weight weight, bias;
  int64_t columns = 0;
};
using Linear = std::vector<Piece>;

// How the model keeps its weights: what it computes in, and the integers that the layers' matrices become (bits 0:
// none). Norms, biases and the embedding stay in dtype. A head is more sensitive than a layer and a small part of a
// large model: it becomes 8 bits with a scale a row, whatever the layers become.
struct WeightFormat {
  int32_t dtype = 0;
  int32_t bits = 0;
  int32_t group_size = 0;
};

// A tensor of the checkpoint (or the module whose it is) with the number of rows it must have (its length, for a
// vector).
struct Part {
  std::string name;
  int64_t rows;
};

// How the checkpoint stores the matrix of a linear layer: torch's Linear has an output a row, GPT-2's Conv1D a column.
enum class MatrixLayout { kOutputRows, kOutputColumns };

// All functions throw Failure: DATA_LOSS for a missing or misshapen tensor, with its name, the shape found and the
// shape expected; what the device says when it refuses.
class WeightLoader {
 public:
  // The references must outlive the loader.
  WeightLoader(const WeightFormat& format, DeviceRef device, const mortise_weight_reader& reader,
               MatrixLayout layout = MatrixLayout::kOutputRows)
      : format_(format), device_(device), reader_(reader), layout_(layout) {}

  bool has(const std::string& tensor) const;

  // Modules that read the same input of `columns`. Neighbours whose weights are of one kind become one piece.
  Linear linear(std::initializer_list<Part> modules, int64_t columns, bool with_bias) const;
  // [rows, columns], its rows looked up; `also_head`: it is the head as well. The first `skipped_rows` of the tensor,
  // which has as many more, stay out.
  Weight embedding(const Part& part, int64_t columns, bool also_head, int64_t skipped_rows = 0) const;
  // A head of its own: int8 as soon as the layers are integers.
  Weight head(const Part& part, int64_t columns) const;
  Weight vector(const Part& part) const;
  // A vector that is in no checkpoint.
  Weight constant_vector(int64_t length, float value) const;
  // One [rows, columns] matrix times a number.
  Weight scaled_matrix(const Part& part, int64_t columns, float factor) const;
  // The tensor in f32, dense. A vector's shape has one number.
  std::vector<float> values(const std::string& name, std::span<const int64_t> shape) const;

 private:
  std::optional<mortise_quantized_matrix> find_quantized(const Part& part, int64_t columns) const;
  Weight prepare_matrix(std::span<const Part> parts, int64_t columns) const;
  Weight prepare_quantized(std::span<const Part> parts,
                           std::span<const std::optional<mortise_quantized_matrix>> matrices) const;
  Weight prepare_vectors(std::span<const Part> parts) const;
  Weight prepare(std::span<const mortise_tensor> tensors, int32_t use, int32_t bits, int32_t group_size,
                 std::string_view name) const;
  Weight prepared(mortise_weight_source& source, std::string_view name) const;
  mortise_tensor read(const std::string& name, std::span<const int64_t> shape) const;

  const WeightFormat& format_;
  const DeviceRef device_;
  const mortise_weight_reader& reader_;
  const MatrixLayout layout_;
};

}  // namespace mortise::models
