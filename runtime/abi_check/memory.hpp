// runtime/abi_check/memory.hpp: the memory that a call gets: inputs that must stay as they are, and outputs with guard
// elements around them.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "abi_check/call.hpp"
#include "abi_check/device_state.hpp"
#include "mortise/plugin.hpp"
#include "mortise/tensor.h"

namespace mortise::abi_check {

// The inputs of one call. Used by one thread. Invariant: each input is hashed before the call.
class Inputs {
 public:
  template <typename T>
  void add(const char* name, const T* values, std::int64_t count) {
    if (values == nullptr || count <= 0) return;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    inputs_.push_back({name, values, bytes, XXH3_64bits(values, bytes)});
  }
  // Adds the numbers of a tensor that the part only reads, row by row. Adds nothing if the device has memory of its
  // own.
  void add_numbers(const char* name, const Device* device, const mortise_tensor& tensor) {
    if (device == nullptr || !device->is_host_memory() || tensor.ndim < 2) return;
    const std::int64_t element = dtype_bytes(tensor.dtype);
    const std::int64_t row = (tensor.ndim == 2 ? tensor.shape[1] : tensor.shape[1] * tensor.stride[1]) * element;
    for (std::int64_t r = 0; r < tensor.shape[0]; ++r) {
      add(name, static_cast<const std::byte*>(tensor.data) + r * tensor.stride[0] * element, row);
    }
  }
  // Throws a Breach that blames the part if it has changed an input.
  void check(const Call& call) const {
    for (const Input& input : inputs_) {
      call.part_must(XXH3_64bits(input.values, input.bytes) == input.hash, "mortise/abi.h",
                     "Data behind `const` is read-only", "{} changes {}", call.function().name, input.name);
    }
  }

 private:
  struct Input {
    const char* name;
    const void* values;
    std::size_t bytes;
    XXH64_hash_t hash;
  };
  std::vector<Input> inputs_;
};

// An output array of one call: a copy of the host's, between guard elements. Used by one thread. Invariant: data() has
// the host's length.
template <typename T>
class Output {
 public:
  Output(const char* name, T* host, std::int64_t count)
      : name_(name), host_(host), count_(static_cast<std::size_t>(std::max<std::int64_t>(count, 0))) {
    if (host_ == nullptr) return;
    values_.resize(count_ + 2 * kGuard);
    std::memset(static_cast<void*>(values_.data()), kByte, values_.size() * sizeof(T));
    std::copy_n(host_, count_, data());
  }
  // Returns NULL if the host's array is NULL.
  T* data() { return host_ == nullptr ? nullptr : values_.data() + kGuard; }
  // Gives the host what the part has written. Throws a Breach that blames the part if it wrote beyond the array.
  void take(const Call& call) {
    if (host_ == nullptr) return;
    std::copy_n(data(), count_, host_);
    call.part_must(is_guard(0) && is_guard(kGuard + count_), "mortise/abi.h",
                   "The caller provides the memory for results", "{} writes beyond the {} elements of {}",
                   call.function().name, count_, name_);
  }

 private:
  static constexpr std::size_t kGuard = 64;  // elements on each side
  static constexpr unsigned char kByte = 0xa7;

  bool is_guard(std::size_t first) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(values_.data() + first);
    return std::all_of(bytes, bytes + kGuard * sizeof(T), [](unsigned char byte) { return byte == kByte; });
  }

  const char* name_;
  T* host_;
  std::size_t count_;
  std::vector<T> values_;
};

}  // namespace mortise::abi_check
