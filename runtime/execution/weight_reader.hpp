// runtime/execution/weight_reader.hpp: gives a model plugin the tensors of a checkpoint.
#pragma once

#include <deque>
#include <mutex>

#include "checkpoint/checkpoint.hpp"
#include "mortise/model.h"

namespace mortise {

// What a model plugin reads its weights from, while it loads. Invariant: a quantised matrix that was given out stays
// valid as long as this. The functions of abi() are thread-safe, as mortise/model.h says.
class WeightReader {
 public:
  explicit WeightReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  mortise_weight_reader abi();  // borrows this

 private:
  static mortise_status get(void* context, mortise_string_view name, mortise_tensor* tensor);
  static mortise_status get_quantized(void* context, mortise_string_view name, mortise_quantized_matrix* matrix,
                                      mortise_error* error);
  const QuantizedMatrix& keep(QuantizedMatrix matrix);

  const Checkpoint& checkpoint_;
  std::mutex mutex_;  // guards quantized_
  std::deque<QuantizedMatrix> quantized_;
};

// The bytes that the checkpoint's tensors take after a model of these dimensions has prepared them.
std::uint64_t prepared_bytes(const Checkpoint& checkpoint, const mortise_model_dims& dims);

}  // namespace mortise
