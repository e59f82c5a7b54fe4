// plugins/kernels/cuda/int_loads.cuh: loads from shared memory: sixteen bytes, and the scales and zero points of
// packed weights (int_weight.hpp).
#pragma once

#include <cstdint>

namespace mortise::cuda {

__device__ __forceinline__ uint4 load_sixteen(std::uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ float load_scale(std::uint32_t address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ std::uint32_t load_zero(std::uint32_t address) {
  std::uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

}  // namespace mortise::cuda
