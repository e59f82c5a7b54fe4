// gpu_fixture.hpp: device memory for tests of kernels, and the skip where there is no GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "kernel_test.hpp"

namespace mortise::cuda {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver || (status == cudaSuccess && count == 0)) {
      GTEST_SKIP() << "no GPU to test on: " << cudaGetErrorString(status);
    }
    ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status);
  }
  cpu::DenormalsOff denormals_off_;
};

// For kernels of Hopper (wgmma, TMA, clusters).
class OnHopper : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    int major = 0;
    ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
    if (major < 9) GTEST_SKIP() << "this kernel needs compute capability 9.0, and the GPU has " << major;
  }
};

template <typename T>
class GpuArray {
 public:
  explicit GpuArray(std::size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, 0xff, count * sizeof(T)), cudaSuccess);  // what nobody writes is NaN
  }
  GpuArray(const std::vector<T>& values) : GpuArray(values.size()) {  // NOLINT: an array of these
    EXPECT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~GpuArray() { cudaFree(data_); }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> get() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

}  // namespace mortise::cuda
