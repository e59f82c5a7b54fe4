// runtime/execution/weight_reader.hpp: gives a model plugin the tensors of a checkpoint.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/gguf/floats.hpp"
#include "mortise/model.h"

namespace mortise {

// What a model plugin reads its weights from, while it loads. Invariant: a quantised matrix and floats that were given
// out stay valid as long as this. The functions of abi() are thread-safe, as mortise/model.h says.
class WeightReader {
 public:
  // Blocks of a GGUF file become floats of `dtype`: MORTISE_BF16, or else f32.
  explicit WeightReader(const Checkpoint& checkpoint, std::int32_t dtype = MORTISE_F32)
      : checkpoint_(checkpoint), dtype_(dtype) {}
  mortise_weight_reader abi();  // borrows this

  // Says which blocks of a GGUF file became floats, and how many bytes they take in the file and in memory. Empty:
  // none.
  std::string widened() const;

 private:
  static mortise_status get(void* context, mortise_string_view name, mortise_tensor* tensor);
  static mortise_status get_quantized(void* context, mortise_string_view name, mortise_quantized_matrix* matrix,
                                      mortise_error* error);
  const QuantizedMatrix& keep(QuantizedMatrix matrix);
  const GgufFloats& floats_of(const std::string& name, const TensorView& view);

  const Checkpoint& checkpoint_;
  const std::int32_t dtype_;
  mutable std::mutex mutex_;  // guards the members below
  std::deque<QuantizedMatrix> quantized_;
  std::map<std::string, GgufFloats, std::less<>> floats_;  // by the tensor's name
};

// The bytes that the checkpoint's tensors take after a model of these dimensions has prepared them.
std::uint64_t prepared_bytes(const Checkpoint& checkpoint, const mortise_model_dims& dims);

}  // namespace mortise
