// plugins/models/common/buffers.hpp: device memory with an owner, and matrices of a step's rows in it.
#pragma once

#include <memory>

#include "models/common/weights.hpp"

namespace mortise::models {

// Device memory that is given back at the end of its life.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceRef owner, uint64_t bytes) {
    void* memory = nullptr;
    mortise_error error = make_error();
    check(owner.table->allocate(owner.device, bytes, &memory, &error), error);
    memory_ = {memory, Deleter{owner}};
  }
  void* get() const { return memory_.get(); }

 private:
  struct Deleter {
    DeviceRef owner;
    void operator()(void* memory) const { owner.table->free(owner.device, memory); }
  };
  std::unique_ptr<void, Deleter> memory_{nullptr, Deleter{}};
};

inline bool has_host_memory(const DeviceRef& ref) {
  auto info = sized<mortise_device_info>();
  return ref.table->describe(ref.device, &info) == MORTISE_OK && info.host_memory != 0;
}

// A matrix of up to so many rows. Devices take pages when they are touched, so unused rows are free.
class RowBuffer {
 public:
  RowBuffer() = default;
  RowBuffer(DeviceRef owner, int32_t dtype, int64_t max_rows, int64_t columns) : dtype_(dtype), columns_(columns) {
    // Rows that begin at multiples of this share few sets of a processor's cache, so that a product that reads 32 of
    // them at a time finds none of them there; a cache line more spreads them.
    constexpr int64_t kRoundRowBytes = 1024, kCacheLine = 64;
    const bool spread = has_host_memory(owner) && columns * dtype_bytes(dtype) % kRoundRowBytes == 0;
    stride_ = spread ? columns + kCacheLine / dtype_bytes(dtype) : columns;
    memory_ = DeviceMemory(owner, static_cast<uint64_t>(max_rows * stride_ * dtype_bytes(dtype)));
  }

  // The first rows, [num_rows, columns].
  mortise_tensor rows(int64_t num_rows) const {
    mortise_tensor tensor = make_tensor(memory_.get(), dtype_, num_rows, columns_);
    tensor.stride[0] = stride_;
    tensor.bytes = static_cast<uint64_t>(num_rows * stride_ * dtype_bytes(dtype_));
    return tensor;
  }

 private:
  DeviceMemory memory_;
  int32_t dtype_ = 0;
  int64_t columns_ = 0, stride_ = 0;
};

// Columns column .. column + num_heads * head_dim of a matrix, as [rows, num_heads, head_dim].
inline mortise_tensor heads_of(const mortise_tensor& matrix, int64_t column, int32_t num_heads, int32_t head_dim) {
  mortise_tensor tensor = matrix;
  const int64_t offset = column * dtype_bytes(matrix.dtype);
  tensor.data = static_cast<char*>(matrix.data) + offset;
  tensor.ndim = 3;
  tensor.shape[1] = num_heads;
  tensor.shape[2] = head_dim;
  tensor.stride[1] = head_dim;
  tensor.bytes = matrix.bytes - static_cast<uint64_t>(offset);
  return tensor;
}

}  // namespace mortise::models
