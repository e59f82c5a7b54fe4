// plugins/devices/cuda/temporary.hpp: device memory that is freed at the end of a scope.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>

#include "devices/cuda/errors.hpp"

namespace mortise::cuda {

// Owns one allocation of device memory. Used by one thread. Invariant: memory_ is allocated, or null.
class Temporary {
 public:
  Temporary() = default;
  // The arguments are those of allocate_for.
  Temporary(std::uint64_t bytes, const std::string& what, const char* where, const std::string& way_out)
      : memory_(allocate_for(what, bytes, where, way_out)) {}
  ~Temporary() { cudaFree(memory_); }
  Temporary(Temporary&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  Temporary& operator=(Temporary&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  void* get() const { return memory_; }
  void* release() { return std::exchange(memory_, nullptr); }

 private:
  void* memory_ = nullptr;
};

}  // namespace mortise::cuda
