#include "kernels/cpu/rows/elementwise.hpp"

#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

template <class In, class Out, class F>
MORTISE_INLINE void map(const In* in, Out* out, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) write(out + i, f(read(in + i)));
  if (i < n) write_tail(out + i, f(read_tail(in + i, n - i)), n - i);
}

template <class T>
void add(const T* a, const T* b, T* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) write(out + i, read(a + i) + read(b + i));
  if (i < n) write_tail(out + i, read_tail(a + i, n - i) + read_tail(b + i, n - i), n - i);
}

template <class T>
void scale(const T* a, float s, T* out, std::size_t n) {
  const F32x16 factor = broadcast(s);
  map(a, out, n, [=](F32x16 x) { return x * factor; });
}

template <class In, class Out>
void convert(const In* in, Out* out, std::size_t n) {
  map(in, out, n, [](F32x16 x) { return x; });
}

// Works on the bits alone. A denormal f16 becomes an ordinary f32: its mantissa times 2^-24.
void f16_to_f32(const F16* in, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t count = lanes_left(n - i);
    std::int32_t half[kLanes] = {};
    for (std::size_t j = 0; j < count; ++j) half[j] = in[i + j];
    const I32x16 h = load_i32(half);
    const I32x16 sign = shift_left<16>(h & broadcast_i32(0x8000));
    const I32x16 magnitude = h & broadcast_i32(0x7fff);
    const I32x16 normal = shift_left<13>(magnitude) + broadcast_i32((127 - 15) << 23);
    const I32x16 special = shift_left<13>(magnitude) + broadcast_i32((255 - 31) << 23);  // infinity, NaN
    const I32x16 denormal = bits(to_float(magnitude) * broadcast(0x1p-24f));
    I32x16 r = select(gt(magnitude, broadcast_i32(0x7bff)), special, normal);
    r = select(gt(broadcast_i32(0x0400), magnitude), denormal, r);
    write_tail(out + i, from_bits(r | sign), count);
  }
}

void gather_rows(const void* table, std::size_t row_bytes, const std::int32_t* ids, std::size_t num_rows, void* out) {
  const char* from = static_cast<const char*>(table);
  char* to = static_cast<char*>(out);
  for (std::size_t r = 0; r < num_rows; ++r) {
    std::memcpy(to + r * row_bytes, from + static_cast<std::size_t>(ids[r]) * row_bytes, row_bytes);
  }
}

}  // namespace

extern const ElementwiseKernels kElementwiseKernels;
constinit const ElementwiseKernels kElementwiseKernels = {
    .add_bf16 = add<Bf16>,
    .add_f32 = add<float>,
    .scale_bf16 = scale<Bf16>,
    .scale_f32 = scale<float>,
    .bf16_to_f32 = convert<Bf16, float>,
    .f16_to_f32 = f16_to_f32,
    .f32_to_bf16 = convert<float, Bf16>,
    .gather_rows = gather_rows,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
