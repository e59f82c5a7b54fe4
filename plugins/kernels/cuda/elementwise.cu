// Activations, gated activations, sums and copies of rows. All are memory bound. If rows are aligned, a thread handles
// eight elements at a time.
#include <algorithm>

#include "kernels/cuda/gated.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows.hpp"
#include "kernels/cuda/vectors.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256;
// A row has blocks of its own up to so many rows. Blocks that take several rows are slower: those that run together
// should read and write memory that lies together (gate, 8192 rows of 14336 columns: 257 us with 16 blocks for each
// multiprocessor, 229 us with a block for each piece).
constexpr std::int64_t kMaxBlockRows = 65535;

// Operations on elements a and b at the same place; Gated (gated.cuh) is another. Unary operations ignore b.
template <class T, Activation kActivation>
struct Unary {
  static constexpr bool kBinary = false;
  __device__ static float of(float a, float) { return Act<kActivation>::of(a); }
  __device__ static void apply(Vector& a, const Vector&) { activate<kActivation>(a.x); }
};
template <class T>
struct Sum {
  static constexpr bool kBinary = true;
  __device__ static float of(float a, float b) { return __fadd_rn(a, b); }
  __device__ static void apply(Vector& a, const Vector& b) {
#pragma unroll
    for (int j = 0; j < kVector; ++j) a.x[j] = of(a.x[j], b.x[j]);
  }
};

// A thread block handles pieces of a row, one per thread, and the same pieces of every gridDim.y-th further row.
template <class T, class Op, bool kVectors>
__global__ void __launch_bounds__(kThreads)
    elementwise_kernel(Rows a, Rows b, Rows out, std::int64_t rows, std::int64_t columns) {
  constexpr int kWidth = kVectors ? kVector : 1;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t n = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  if (n >= columns) return;
  for (std::int64_t m = blockIdx.y; m < rows; m += gridDim.y) {
    const T* pa = static_cast<const T*>(a.data) + m * a.stride + n;
    const T* pb = Op::kBinary ? static_cast<const T*>(b.data) + m * b.stride + n : nullptr;
    T* to = static_cast<T*>(out.data) + m * out.stride + n;
    if constexpr (kVectors) {
      Vector v = load_vector(pa), w = {};
      if constexpr (Op::kBinary) w = load_vector(pb);
      Op::apply(v, w);
      store_vector(to, v);
    } else {
      put(*to, Op::of(get(*pa), Op::kBinary ? get(*pb) : 0.0f));
    }
  }
}

template <class T, class Op>
cudaError_t launch(ElementType type, Rows a, Rows b, Rows out, std::int64_t rows, std::int64_t columns,
                   cudaStream_t stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  const bool vectors = columns % kVector == 0 && rows_aligned(a, type) && rows_aligned(out, type) &&
                       (!Op::kBinary || rows_aligned(b, type));
  const std::int64_t pieces = columns / (vectors ? kVector : 1), across = (pieces + kThreads - 1) / kThreads;
  const std::int64_t down = std::min(rows, kMaxBlockRows);
  const std::int64_t warps = ((pieces + across - 1) / across + 31) / 32;
  const auto kernel = vectors ? elementwise_kernel<T, Op, true> : elementwise_kernel<T, Op, false>;
  return launch_overlapped(kernel, dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)),
                           static_cast<std::int32_t>(warps * 32), 0, stream, a, b, out, rows, columns);
}

template <template <class, Activation> class Op, class T>
cudaError_t launch_activated(Activation activation, ElementType type, Rows a, Rows b, Rows out, std::int64_t rows,
                             std::int64_t columns, cudaStream_t stream) {
  switch (activation) {
    case Activation::kSilu:
      return launch<T, Op<T, Activation::kSilu>>(type, a, b, out, rows, columns, stream);
    case Activation::kGelu:
      return launch<T, Op<T, Activation::kGelu>>(type, a, b, out, rows, columns, stream);
    case Activation::kGeluTanh:
      return launch<T, Op<T, Activation::kGeluTanh>>(type, a, b, out, rows, columns, stream);
    case Activation::kRelu:
      break;
  }
  return launch<T, Op<T, Activation::kRelu>>(type, a, b, out, rows, columns, stream);
}

template <class Word>
__global__ void __launch_bounds__(kThreads) gather_kernel(const GatherArgs args) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t m = blockIdx.x, words = args.row_bytes / static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t id = args.ids[m];
  const bool known = id >= 0 && id < args.num_from;
  const Word* from = reinterpret_cast<const Word*>(args.from + (known ? id : 0) * args.from_stride);
  Word* to = reinterpret_cast<Word*>(args.out + m * args.out_stride);
  for (std::int64_t i = threadIdx.x; i < words; i += kThreads) to[i] = known ? from[i] : Word{};
}

// Each thread copies one word, because rows may be short.
template <class Word>
__global__ void __launch_bounds__(kThreads) scatter_kernel(const ScatterArgs args) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t words = args.row_bytes / static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x, m = i / words, word = i % words;
  if (m >= args.rows) return;
  const std::int64_t id = args.ids[m];
  if (id < 0 || id >= args.num_out) return;
  reinterpret_cast<Word*>(args.out + id * args.out_stride)[word] =
      reinterpret_cast<const Word*>(args.from + m * args.from_stride)[word];
}

__global__ void __launch_bounds__(kMaxSmallCopy)
    small_copy_kernel(const std::byte* from, std::byte* to, std::size_t bytes) {
  wait_for_kernel_before();
  if (threadIdx.x < bytes) to[threadIdx.x] = from[threadIdx.x];
}

// Returns the largest of 16, 4 and 2 bytes that divides the addresses, strides and lengths of both sets of rows.
template <class Args>
std::size_t word_bytes(const Args& args) {
  const auto all = reinterpret_cast<std::uintptr_t>(args.from) | reinterpret_cast<std::uintptr_t>(args.out) |
                   static_cast<std::uintptr_t>(args.from_stride) | static_cast<std::uintptr_t>(args.out_stride) |
                   static_cast<std::uintptr_t>(args.row_bytes);
  return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 2;
}

}  // namespace

cudaError_t launch_gated(Activation activation, ElementType type, Rows x, Rows out, std::int64_t rows,
                         std::int64_t columns, cudaStream_t stream) {
  const Rows up = {static_cast<std::byte*>(x.data) + columns * element_bytes(type), x.stride};
  return type == ElementType::kBf16
             ? launch_activated<Gated, Bf16>(activation, type, x, up, out, rows, columns, stream)
             : launch_activated<Gated, float>(activation, type, x, up, out, rows, columns, stream);
}

cudaError_t launch_activation(Activation activation, ElementType type, Rows x, Rows out, std::int64_t rows,
                              std::int64_t columns, cudaStream_t stream) {
  return type == ElementType::kBf16
             ? launch_activated<Unary, Bf16>(activation, type, x, x, out, rows, columns, stream)
             : launch_activated<Unary, float>(activation, type, x, x, out, rows, columns, stream);
}

cudaError_t launch_add(ElementType type, Rows a, Rows b, Rows out, std::int64_t rows, std::int64_t columns,
                       cudaStream_t stream) {
  return type == ElementType::kBf16 ? launch<Bf16, Sum<Bf16>>(type, a, b, out, rows, columns, stream)
                                    : launch<float, Sum<float>>(type, a, b, out, rows, columns, stream);
}

cudaError_t launch_gather(const GatherArgs& args, cudaStream_t stream) {
  if (args.rows == 0 || args.row_bytes == 0) return cudaSuccess;
  const std::size_t word = word_bytes(args);
  const auto kernel =
      word == 16 ? gather_kernel<uint4> : (word == 4 ? gather_kernel<std::uint32_t> : gather_kernel<std::uint16_t>);
  return launch_overlapped(kernel, static_cast<unsigned>(args.rows), kThreads, 0, stream, args);
}

cudaError_t launch_scatter(const ScatterArgs& args, cudaStream_t stream) {
  if (args.rows == 0 || args.row_bytes == 0) return cudaSuccess;
  const std::size_t word = word_bytes(args);
  const auto kernel =
      word == 16 ? scatter_kernel<uint4> : (word == 4 ? scatter_kernel<std::uint32_t> : scatter_kernel<std::uint16_t>);
  const std::int64_t words = args.rows * args.row_bytes / static_cast<std::int64_t>(word);
  return launch_overlapped(kernel, static_cast<unsigned>((words + kThreads - 1) / kThreads), kThreads, 0, stream, args);
}

cudaError_t launch_small_copy(const std::byte* from, std::byte* to, std::size_t bytes, cudaStream_t stream) {
  return launch_overlapped(small_copy_kernel, 1, kMaxSmallCopy, 0, stream, from, to, bytes);
}

}  // namespace mortise::cuda
