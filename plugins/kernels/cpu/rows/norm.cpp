#include "kernels/cpu/rows/norm.hpp"

#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Calls f(first column, number of columns) for each vector; the last one may be a tail.
template <class F>
MORTISE_INLINE void for_columns(std::size_t columns, F f) {
  for (std::size_t n = 0; n < columns; n += kLanes) f(n, lanes_left(columns - n));
}

template <class T>
MORTISE_INLINE F32x16 read_some(const T* p, std::size_t count) {
  return count == kLanes ? read(p) : read_tail(p, count);
}
template <class T>
MORTISE_INLINE void write_some(T* p, F32x16 a, std::size_t count) {
  if (count == kLanes) {
    write(p, a);
  } else {
    write_tail(p, a, count);
  }
}

// residual = round(x + residual), if there is one. Returns the row to normalise: residual, or else x.
template <class T>
const T* add_residual(const NormArgs& args, std::size_t m) {
  const T* x = static_cast<const T*>(args.x) + m * args.x_stride;
  if (args.residual == nullptr) return x;
  T* residual = static_cast<T*>(args.residual) + m * args.residual_stride;
  for_columns(args.columns, [&](std::size_t n, std::size_t count) {
    write_some(residual + n, read_some(x + n, count) + read_some(residual + n, count), count);
  });
  return residual;
}

// 1 / sqrt(sum / columns + eps) in every lane.
MORTISE_INLINE F32x16 inverse_deviation(float sum_of_squares, std::size_t columns, float eps) {
  const F32x16 mean = broadcast(sum_of_squares) / broadcast(static_cast<float>(columns));
  return broadcast(1.0f) / sqrt(mean + broadcast(eps));
}

template <class T>
void rms_norm(const NormArgs& args, std::size_t m0, std::size_t m1) {
  const T* weight = static_cast<const T*>(args.weight);
  for (std::size_t m = m0; m < m1; ++m) {
    const T* x = add_residual<T>(args, m);
    T* out = static_cast<T*>(args.out) + m * args.out_stride;
    F32x16 squares = zero();
    for_columns(args.columns, [&](std::size_t n, std::size_t count) {
      const F32x16 v = read_some(x + n, count);
      squares = sizeof(T) == sizeof(Bf16) ? fma_exact_product(v, v, squares) : fma(v, v, squares);
    });
    const F32x16 inverse = inverse_deviation(sum(squares), args.columns, args.eps);
    for_columns(args.columns, [&](std::size_t n, std::size_t count) {
      const F32x16 normed = rounded<T>(read_some(x + n, count) * inverse);
      write_some(out + n, read_some(weight + n, count) * normed, count);
    });
  }
}

template <class T>
void layer_norm(const NormArgs& args, std::size_t m0, std::size_t m1) {
  const T* weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  for (std::size_t m = m0; m < m1; ++m) {
    const T* x = add_residual<T>(args, m);
    T* out = static_cast<T*>(args.out) + m * args.out_stride;
    F32x16 total = zero(), squares = zero();
    for_columns(args.columns, [&](std::size_t n, std::size_t count) { total = total + read_some(x + n, count); });
    const F32x16 mean = broadcast(sum(total)) / broadcast(static_cast<float>(args.columns));
    for_columns(args.columns, [&](std::size_t n, std::size_t count) {
      const F32x16 d = select(first_lanes(count), read_some(x + n, count) - mean, zero());
      squares = fma(d, d, squares);
    });
    const F32x16 inverse = inverse_deviation(sum(squares), args.columns, args.eps);
    for_columns(args.columns, [&](std::size_t n, std::size_t count) {
      const F32x16 normed = (read_some(x + n, count) - mean) * inverse;
      const F32x16 w = read_some(weight + n, count);
      write_some(out + n, bias == nullptr ? normed * w : fma(normed, w, read_some(bias + n, count)), count);
    });
  }
}

}  // namespace

extern const NormKernels kNormKernels;
constinit const NormKernels kNormKernels = {
    .rms_norm_bf16 = rms_norm<Bf16>,
    .rms_norm_f32 = rms_norm<float>,
    .layer_norm_bf16 = layer_norm<Bf16>,
    .layer_norm_f32 = layer_norm<float>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
