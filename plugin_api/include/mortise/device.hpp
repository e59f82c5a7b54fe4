// mortise/device.hpp: C++ helpers for plugins that compute on a device: owners of memory and weights, and matrices for
// the rows of a step. Not part of the ABI: they are compiled into the plugin, like plugin.hpp. C++20. Since 0.5. An
// object is for one thread at a time. If a call of the device fails, they throw a Failure with the device's message.
#pragma once

#include <memory>

#include "mortise/device.h"
#include "mortise/plugin.hpp"

namespace mortise {

// A device and its functions, as mortise_create_args gives them. Borrowed: both live until the instance is destroyed.
struct DeviceRef {
  mortise_device* device = nullptr;
  const mortise_device_table* table = nullptr;
};

struct WeightDeleter {
  DeviceRef owner;
  void operator()(mortise_weight* weight) const { owner.table->free_weight(owner.device, weight); }
};
// A weight that the device prepared. Null: the model has no such weight.
using Weight = std::unique_ptr<mortise_weight, WeightDeleter>;

// The advice in the message when there is no memory for the buffers of a step.
constexpr const char* kLowerBatch = "buffers of a step grow with the scheduler's max_batched_tokens; lower it";

// Owns device memory or pinned host memory. Can be moved. For one thread at a time. Invariant: it is freed once.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws Failure. If there is no memory, its message ends with `way_out`, which names the option to change.
  DeviceMemory(DeviceRef owner, uint64_t bytes, const char* way_out = kLowerBatch)
      : DeviceMemory(owner, bytes, way_out, owner.table->allocate, owner.table->free) {}
  // REQUIRES: the device has host_allocate (MORTISE_HAS).
  static DeviceMemory pinned(DeviceRef owner, uint64_t bytes, const char* way_out = kLowerBatch) {
    return DeviceMemory(owner, bytes, way_out, owner.table->host_allocate, owner.table->host_free);
  }

  // Borrowed: valid until release() or destruction.
  void* get() const { return memory_.get(); }
  std::byte* bytes() const { return static_cast<std::byte*>(memory_.get()); }
  // Returns the memory to the device.
  void release() { memory_.reset(); }

 private:
  using Allocate = mortise_status (*)(mortise_device*, uint64_t, void**, mortise_error*);
  using Free = void (*)(mortise_device*, void*);
  struct Deleter {
    mortise_device* device;
    Free free;
    void operator()(void* memory) const { free(device, memory); }
  };
  DeviceMemory(DeviceRef owner, uint64_t bytes, const char* way_out, Allocate allocate, Free free) {
    void* memory = nullptr;
    mortise_error error = make_error();
    const mortise_status status = allocate(owner.device, bytes, &memory, &error);
    if (status == MORTISE_RESOURCE_EXHAUSTED) {
      throw Failure(status, "device", std::string(error.where) + ": " + error.message + ": " + way_out);
    }
    check(status, error);
    memory_ = {memory, Deleter{owner.device, free}};
  }

  std::unique_ptr<void, Deleter> memory_{nullptr, Deleter{}};
};

// Whether the device computes in host memory.
inline bool has_host_memory(const DeviceRef& ref) {
  auto info = sized<mortise_device_info>();
  return ref.table->describe(ref.device, &info) == MORTISE_OK && info.host_memory != 0;
}

// A matrix of up to max_rows rows in device memory. On a device that uses host memory, rows that no step uses cost no
// memory. For one thread at a time. Invariant: neighbouring rows are stride_ >= columns_ elements apart.
class RowBuffer {
 public:
  RowBuffer() = default;
  RowBuffer(DeviceRef owner, int32_t dtype, int64_t max_rows, int64_t columns, const char* way_out = kLowerBatch)
      : dtype_(dtype), columns_(columns) {
    // Rows whose size is a multiple of kConflictBytes would map to the same few cache sets, and a product that reads 32
    // rows at a time would always miss. One more cache line per row spreads the rows over all sets.
    constexpr int64_t kConflictBytes = 1024, kCacheLine = 64;
    const bool spread = has_host_memory(owner) && columns * dtype_bytes(dtype) % kConflictBytes == 0;
    stride_ = spread ? columns + kCacheLine / dtype_bytes(dtype) : columns;
    memory_ = DeviceMemory(owner, static_cast<uint64_t>(max_rows * stride_ * dtype_bytes(dtype)), way_out);
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

// Columns column .. column + num_heads * head_dim - 1 of a matrix [rows, columns], as [rows, num_heads, head_dim]. The
// result points into the matrix.
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

}  // namespace mortise
