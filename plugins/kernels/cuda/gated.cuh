// plugins/kernels/cuda/gated.cuh: activations and gated activations of one number and of a vector (docs/numerics.md).
#pragma once

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/vectors.cuh"

namespace mortise::cuda {

template <Activation kActivation>
struct Act {
  __device__ static float of(float x) {
    if constexpr (kActivation == Activation::kSilu) return silu(x);
    if constexpr (kActivation == Activation::kGelu) return gelu(x);
    if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh(x);
    return relu(x);
  }
};

// Applies the activation to a vector. One branch for all of its elements: SiLU is cheaper if none is large.
template <Activation kActivation>
__device__ __forceinline__ void activate(float (&x)[kVector]) {
  bool moderate = kActivation == Activation::kSilu;
#pragma unroll
  for (int j = 0; j < kVector; ++j) moderate = moderate && magnitude(x[j]) < 80.0f;
  if (moderate) {
#pragma unroll
    for (int j = 0; j < kVector; ++j) x[j] = silu_of_moderate(x[j]);
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j) x[j] = Act<kActivation>::of(x[j]);
  }
}

// round(act(a)) * b; the product is rounded where it is stored.
template <class T, Activation kActivation>
struct Gated {
  static constexpr bool kBinary = true;  // for elementwise.cu
  __device__ static float of(float a, float b) { return __fmul_rn(rounded<T>(Act<kActivation>::of(a)), b); }
  __device__ static void apply(Vector& a, const Vector& b) {
    activate<kActivation>(a.x);
    if constexpr (sizeof(T) == sizeof(Bf16)) unpack(rounded_eight(a.x), a.x);
#pragma unroll
    for (int j = 0; j < kVector; ++j) a.x[j] = __fmul_rn(a.x[j], b.x[j]);
  }
};

}  // namespace mortise::cuda
