// rms_norm and layer_norm: one block per row. The row is copied to shared memory. Sixteen lanes of the first warp
// compute the sixteen chains of the specification (element i to chain i mod 16, ascending). The length of a chain,
// columns / 16 dependent operations, determines the time of small batches: about half a microsecond at 4096 columns.
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/rows.hpp"
#include "kernels/cuda/vectors.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kHeld = 2;  // vectors of weights that a thread loads before the preceding kernels have ended

// Reduces every sixteenth element of a row, from element `lane` on: q = 0, then q = op(q, element) in ascending order.
template <class Op>
__device__ __forceinline__ float chain(const float* row, int n, int lane, Op op) {
  float q = 0.0f;
#pragma unroll 16
  for (int i = lane; i < n; i += kLanes) q = op(q, row[i]);
  return q;
}

template <class T>
__device__ __forceinline__ float normed(float x, float mean, float inverse, float weight, const T* bias, int i,
                                        bool layer) {
  if (!layer) return __fmul_rn(weight, rounded<T>(__fmul_rn(x, inverse)));
  const float y = __fmul_rn(__fadd_rn(x, -mean), inverse);
  return bias == nullptr ? __fmul_rn(y, weight) : __fmaf_rn(y, weight, get(bias[i]));
}

template <class T, bool kVectors>
__global__ void __launch_bounds__(kThreads) norm_kernel(const NormArgs args) {
  extern __shared__ float row[];
  __shared__ float shared_mean, shared_inverse;
  const int n = static_cast<int>(args.columns), tid = static_cast<int>(threadIdx.x);
  const std::int64_t m = blockIdx.x;
  const T* x = static_cast<const T*>(args.x.data) + m * args.x.stride;
  T* residual =
      args.residual.data == nullptr ? nullptr : static_cast<T*>(args.residual.data) + m * args.residual.stride;
  const T* weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  T* out = static_cast<T*>(args.out.data) + m * args.out.stride;

  let_next_kernel_begin();
  Vector held[kHeld];
  if constexpr (kVectors) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int i = (j * kThreads + tid) * kVector;
      if (i < n) held[j] = load_vector(weight + i);
    }
  }
  wait_for_kernel_before();
  if constexpr (kVectors) {
    // All loads of a round come before its first store: after a store they might have to wait for it.
    for (int begin = tid * kVector; begin < n; begin += kHeld * kThreads * kVector) {
      Vector v[kHeld], r[kHeld];
#pragma unroll
      for (int j = 0; j < kHeld; ++j) {
        const int i = begin + j * kThreads * kVector;
        if (i < n) v[j] = load_vector(x + i);
        if (i < n && residual != nullptr) r[j] = load_vector(residual + i);
      }
#pragma unroll
      for (int j = 0; j < kHeld; ++j) {
        const int i = begin + j * kThreads * kVector;
        if (i >= n) break;
        if (residual != nullptr) {
#pragma unroll
          for (int e = 0; e < kVector; ++e) v[j].x[e] = rounded<T>(__fadd_rn(v[j].x[e], r[j].x[e]));
          store_vector(residual + i, v[j]);
        }
        reinterpret_cast<float4*>(row + i)[0] = {v[j].x[0], v[j].x[1], v[j].x[2], v[j].x[3]};
        reinterpret_cast<float4*>(row + i)[1] = {v[j].x[4], v[j].x[5], v[j].x[6], v[j].x[7]};
      }
    }
  } else {
    for (int i = tid; i < n; i += kThreads) {
      float v = get(x[i]);
      if (residual != nullptr) {
        v = rounded<T>(__fadd_rn(v, get(residual[i])));
        put(residual[i], v);
      }
      row[i] = v;
    }
  }
  __syncthreads();
  if (tid < 32) {
    const int lane = tid % kLanes;
    const float count = __int2float_rn(n);
    float mean = 0.0f;
    if (args.layer_norm) {
      const float sum = tree_sum(chain(row, n, lane, [](float s, float v) { return __fadd_rn(s, v); }));
      mean = __shfl_sync(kWholeWarp, __fdiv_rn(sum, count), 0);
    }
    const float squares = tree_sum(chain(row, n, lane, [mean](float q, float v) {
      const float d = __fadd_rn(v, -mean);
      return __fmaf_rn(d, d, q);
    }));
    if (tid == 0) {
      shared_mean = mean;
      shared_inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(__fdiv_rn(squares, count), args.eps)));
    }
  }
  __syncthreads();
  const float mean = shared_mean, inverse = shared_inverse;
  if constexpr (kVectors) {
    const auto write = [&](int i, const Vector& w) {
      Vector y;
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        y.x[j] = normed(row[i + j], mean, inverse, w.x[j], bias, i + j, args.layer_norm);
      store_vector(out + i, y);
    };
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int i = (j * kThreads + tid) * kVector;
      if (i < n) write(i, held[j]);
    }
    for (int i = (kHeld * kThreads + tid) * kVector; i < n; i += kThreads * kVector) write(i, load_vector(weight + i));
  } else {
    for (int i = tid; i < n; i += kThreads) {
      put(out[i], normed(row[i], mean, inverse, get(weight[i]), bias, i, args.layer_norm));
    }
  }
}

// The kernel for rms_norm in bf16. Threads hold their vectors packed in registers, the row in shared memory is bf16,
// and rounding two numbers is one instruction, so that more rows are on their way at a time. Few rows are faster, too
// (between two products 3.2 us instead of 4.4 at one row, H200), probably because there is less code to fetch. A row
// has a block of its own: blocks that take several rows and load the next one ahead are slower (8192 rows of 4096: 101
// us, not 93), since blocks that run together should read and write memory that lies together.

// A thread has kEach vectors of a row; those beyond the row are not used.
template <int kEach>
__global__ void __launch_bounds__(kThreads) rms_rows_kernel(const NormArgs args) {
  __shared__ uint4 row[kEach * kThreads];
  __shared__ float shared_inverse;
  const int n = static_cast<int>(args.columns), tid = static_cast<int>(threadIdx.x);
  const std::int64_t m = blockIdx.x;
  const Bf16* x = static_cast<const Bf16*>(args.x.data) + m * args.x.stride;
  Bf16* residual =
      args.residual.data == nullptr ? nullptr : static_cast<Bf16*>(args.residual.data) + m * args.residual.stride;
  let_next_kernel_begin();
  uint4 weight[kEach], mine[kEach], beside[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = (j * kThreads + tid) * kVector;
    if (i < n) weight[j] = *reinterpret_cast<const uint4*>(static_cast<const Bf16*>(args.weight) + i);
  }
  wait_for_kernel_before();
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = (j * kThreads + tid) * kVector;
    if (i >= n) break;
    mine[j] = *reinterpret_cast<const uint4*>(x + i);
    if (residual != nullptr) beside[j] = *reinterpret_cast<const uint4*>(residual + i);
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = (j * kThreads + tid) * kVector;
    if (i >= n) break;
    if (residual != nullptr) {
      float v[kVector], r[kVector];
      unpack(mine[j], v);
      unpack(beside[j], r);
#pragma unroll
      for (int e = 0; e < kVector; ++e) v[e] = __fadd_rn(v[e], r[e]);
      mine[j] = packed_eight(v);
      *reinterpret_cast<uint4*>(residual + i) = mine[j];
    }
    row[j * kThreads + tid] = mine[j];
  }
  __syncthreads();
  if (tid < 32) {
    const Bf16* elements = reinterpret_cast<const Bf16*>(row);
    float q = 0.0f;
#pragma unroll 16
    for (int i = tid % kLanes; i < n; i += kLanes) {
      const float v = from_bf16(elements[i]);
      q = __fmaf_rn(v, v, q);
    }
    const float squares = tree_sum(q);
    if (tid == 0) {
      shared_inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(__fdiv_rn(squares, __int2float_rn(n)), args.eps)));
    }
  }
  __syncthreads();
  const float inverse = shared_inverse;
  Bf16* out = static_cast<Bf16*>(args.out.data) + m * args.out.stride;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = (j * kThreads + tid) * kVector;
    if (i >= n) break;
    float v[kVector], w[kVector];
    unpack(mine[j], v);
#pragma unroll
    for (int e = 0; e < kVector; ++e) v[e] = __fmul_rn(v[e], inverse);
    unpack(rounded_eight(v), v);
    unpack(weight[j], w);
#pragma unroll
    for (int e = 0; e < kVector; ++e) v[e] = __fmul_rn(w[e], v[e]);
    *reinterpret_cast<uint4*>(out + i) = packed_eight(v);
  }
}

template <class T>
cudaError_t launch(const NormArgs& args, cudaStream_t stream) {
  const ElementType type = args.type;
  const bool vectors = args.columns % kVector == 0 && rows_aligned(args.x, type) && rows_aligned(args.out, type) &&
                       (args.residual.data == nullptr || rows_aligned(args.residual, type)) &&
                       reinterpret_cast<std::uintptr_t>(args.weight) % 16 == 0;
  if (type == ElementType::kBf16 && vectors && !args.layer_norm && args.columns <= 4 * kThreads * kVector) {
    const auto rms = args.columns <= 2 * kThreads * kVector ? rms_rows_kernel<2> : rms_rows_kernel<4>;
    return launch_overlapped(rms, static_cast<unsigned>(args.rows), kThreads, 0, stream, args);
  }
  const auto kernel = vectors ? norm_kernel<T, true> : norm_kernel<T, false>;
  const auto shared = static_cast<unsigned>(args.columns) * sizeof(float);
  return launch_overlapped(kernel, static_cast<unsigned>(args.rows), kThreads, shared, stream, args);
}

template <class Kernel>
cudaError_t allow_long_rows(Kernel kernel, std::int64_t most_columns) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(most_columns * static_cast<std::int64_t>(sizeof(float))));
}

}  // namespace

cudaError_t launch_norm(const NormArgs& args, cudaStream_t stream) {
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
  return args.type == ElementType::kBf16 ? launch<Bf16>(args, stream) : launch<float>(args, stream);
}

cudaError_t prepare_row_kernels(std::int64_t most_columns) {
  for (const cudaError_t error :
       {allow_long_rows(norm_kernel<Bf16, true>, most_columns), allow_long_rows(norm_kernel<Bf16, false>, most_columns),
        allow_long_rows(norm_kernel<float, true>, most_columns),
        allow_long_rows(norm_kernel<float, false>, most_columns)}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
