// gpu.hpp: what the tests need of the GPU: arrays that free themselves, and the one reason for which a test may be
// skipped.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::test {

inline void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Empty if there is a GPU that the kernels are compiled for.
inline std::string no_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    return std::string("no GPU to test on: ") + cudaGetErrorString(error);
  }
  check_cuda(error, "count GPUs");
  if (count == 0) return "no GPU to test on";
  int major = 0, minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "major");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "minor");
  if ((major == 8 && minor != 7) || (major == 9 && minor == 0)) return {};  // the device refuses 8.7
  return "no GPU to test on: this one is sm_" + std::to_string(major * 10 + minor) +
         "; the kernels are compiled for sm_80 and sm_90a";
}

// Whether the kernels of compute capability 8 are tested: on such a GPU, or as MORTISE_CUDA_ISA says, which the device
// cuda obeys too.
inline bool tests_sm_80() {
  const char* const forced = std::getenv("MORTISE_CUDA_ISA");
  if (forced != nullptr && std::string_view(forced) == "sm_80") return true;
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "major");
  return major == 8;
}

#define MORTISE_NEEDS_GPU()                            \
  do {                                                 \
    const std::string why = ::mortise::test::no_gpu(); \
    if (!why.empty()) GTEST_SKIP() << why;             \
  } while (false)

template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t n) { resize(n); }
  explicit DeviceArray(const std::vector<T>& values) { *this = values; }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void resize(std::size_t n) {
    check_cuda(cudaFree(data_), "free");
    data_ = nullptr;
    size_ = n;
    if (n > 0) check_cuda(cudaMalloc(&data_, n * sizeof(T)), "allocate");
  }
  DeviceArray& operator=(const std::vector<T>& values) {
    resize(values.size());
    if (size_ > 0) check_cuda(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "upload");
    return *this;
  }
  void fill(int byte) {
    if (size_ > 0) check_cuda(cudaMemset(data_, byte, size_ * sizeof(T)), "fill");
  }
  std::vector<T> values() const {
    std::vector<T> values(size_);
    if (size_ > 0) check_cuda(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return values;
  }
  T* data() const { return static_cast<T*>(data_); }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mortise::test
