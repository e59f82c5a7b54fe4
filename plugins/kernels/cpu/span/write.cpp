// Writes K and V to the cache in the layout of span.hpp. A token whose V is not finite is stored as K of NaN and V of
// zeros, so V in the cache is always finite (docs/numerics.md, "What is written").
#include <type_traits>

#include "kernels/cpu/linear_int/scale.hpp"
#include "kernels/cpu/span/span.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t index(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

// The place of a token in the cache for one KV head. T is the type of the cache.
template <class T>
struct Slot {
  T *keys, *values;  // the token's first element of K; the token's row of V (bf16: the row of its pair)
  bool odd;
  float *key_scale, *value_scale;  // for int8 and E4M3
};

template <class T>
Slot<T> slot_of(const KvWrite& write, std::int64_t slot, std::size_t head) {
  const KvLayout& layout = *write.layout;
  const std::size_t block = static_cast<std::size_t>(slot) / index(layout.block_size);
  const std::size_t offset = static_cast<std::size_t>(slot) % index(layout.block_size);
  T* base = static_cast<T*>(write.kv) + block * layout.block_elements + head * layout.head_elements;
  const std::size_t pair = sizeof(T) == 2 ? 2 : 1;
  return {base + offset / kKeyGroup * kKeyGroup * index(layout.key_depth) + offset % kKeyGroup * pair,
          base + layout.value_offset + offset / pair * pair * index(layout.value_width), offset % 2 != 0,
          reinterpret_cast<float*>(base + layout.key_scale_offset) + offset,
          reinterpret_cast<float*>(base + layout.value_scale_offset) + offset};
}

// Whether all elements of n rows are finite. Only NaN and infinities have an exponent of ones: adding 1 to the exponent
// then carries into the sign bit, which was cleared.
template <class T>
MORTISE_INLINE bool all_finite(const T* x, std::ptrdiff_t row_stride, std::int32_t n, std::size_t head_dim) {
  constexpr bool kPairs = sizeof(T) == sizeof(Bf16);  // a word has two elements
  const I32x16 magnitude = broadcast_i32(kPairs ? 0x7fff7fff : 0x7fffffff);
  const I32x16 one = broadcast_i32(kPairs ? 0x00800080 : 0x00800000);
  const I32x16 sign = broadcast_i32(static_cast<std::int32_t>(kPairs ? 0x80008000u : 0x80000000u));
  const std::size_t words = head_dim * sizeof(T) / sizeof(std::int32_t);
  I32x16 carried = broadcast_i32(0);
  for (std::int32_t r = 0; r < n; ++r, x += row_stride) {
    const std::int32_t* const row = reinterpret_cast<const std::int32_t*>(x);
    std::size_t w = 0;
    for (; w + kLanes <= words; w += kLanes) carried = carried | ((load_i32(row + w) & magnitude) + one);
    if (w < words) carried = carried | ((load_i32_tail(row + w, words - w) & magnitude) + one);
  }
  return mask_bits(eq(carried & sign, broadcast_i32(0))) == 0xffffu;
}

// Written in place of a token whose V is not finite: scores become NaN, while products with V stay finite.
template <class T>
struct NotFinite {
  T key[kMaxHeadDim] = {}, value[kMaxHeadDim] = {};
  constexpr NotFinite() {
    for (T& x : key) {
      if constexpr (sizeof(T) == sizeof(Bf16)) {
        x = 0x7fc0;
      } else {
        x = __builtin_nanf("");
      }
    }
  }
};
template <class T>
constexpr NotFinite<T> kNotFinite;

// The K and V to write for a token and head.
template <class T>
struct Written {
  const T *k, *v;
};
template <class T>
Written<T> written(const T* k, const T* v, std::size_t head_dim) {
  if (all_finite(v, 0, 1, head_dim)) return {k, v};
  return {kNotFinite<T>.key, kNotFinite<T>.value};
}

void write_key(const Bf16* k, std::size_t head_dim, Bf16* keys) {
  for (std::size_t d = 0; d < head_dim; d += 2) std::memcpy(keys + d * kKeyGroup, k + d, 2 * sizeof(Bf16));
}
template <class T>
void write_key(const T* k, std::size_t head_dim, T* keys) {
  for (std::size_t d = 0; d < head_dim; ++d) keys[d * kKeyGroup] = k[d];
}

void write_value(const Bf16* v, std::size_t head_dim, const Slot<Bf16>& slot) {
  Bf16* to = slot.values + (slot.odd ? 1 : 0);
  for (std::size_t d = 0; d < head_dim; ++d) to[2 * d] = v[d];
}
void write_value(const float* v, std::size_t head_dim, const Slot<float>& slot) {
  std::memcpy(slot.values, v, head_dim * sizeof(float));
}

// Writes both tokens of a pair at once, in whole words.
void write_value_pair(const Bf16* even, const Bf16* odd, std::size_t head_dim, Bf16* values) {
  std::int32_t* words = reinterpret_cast<std::int32_t*>(values);
  std::size_t d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) {
    store(words + d, shift_right<16>(bits(load_bf16(even + d))) | bits(load_bf16(odd + d)));
  }
  if (d < head_dim) {
    const std::size_t n = head_dim - d;
    store_tail(words + d, shift_right<16>(bits(load_bf16_tail(even + d, n))) | bits(load_bf16_tail(odd + d, n)), n);
  }
}

// Compiler vectors (GCC extension) of 32-bit words, for any instruction set.
template <int n>
struct Words;
template <>
struct Words<4> {
  using Vector = std::uint32_t __attribute__((vector_size(16)));
  static MORTISE_INLINE Vector low(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
  static MORTISE_INLINE Vector high(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
};
#if defined(MORTISE_ISA_AVX512)
template <>
struct Words<16> {
  using Vector = std::uint32_t __attribute__((vector_size(64)));
  static MORTISE_INLINE Vector low(Vector a, Vector b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static MORTISE_INLINE Vector high(Vector a, Vector b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
};
constexpr int kMaxTokens = 16;  // fills whole cache lines of a key group
#else
constexpr int kMaxTokens = 4;
#endif

// A transposition: the n words (pairs of elements) of a token become a column of the key group, for n tokens
// `row_stride` apart. Each step interleaves the words of rows that are n / 2 apart, which rotates the bits of (row,
// column) by one; log2(n) steps exchange row and column.
template <int n>
MORTISE_INLINE void write_keys_square(const Bf16* k, std::ptrdiff_t row_stride, Bf16* keys) {
  typename Words<n>::Vector rows[n], steps[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) std::memcpy(&rows[i], k + i * row_stride, sizeof rows[i]);
#pragma GCC unroll 4
  for (int step = 1; step < n; step *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      steps[2 * i] = Words<n>::low(rows[i], rows[i + n / 2]);
      steps[2 * i + 1] = Words<n>::high(rows[i], rows[i + n / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) rows[i] = steps[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) std::memcpy(keys + i * 2 * kKeyGroup, &rows[i], sizeof rows[i]);
}

// n consecutive tokens; head_dim is a multiple of 8. `keys` is the slot of the first token.
template <int n>
void write_keys(const Bf16* k, std::ptrdiff_t row_stride, std::size_t head_dim, Bf16* keys) {
  std::size_t d = 0;
  for (; d + 2 * n <= head_dim; d += 2 * n) write_keys_square<n>(k + d, row_stride, keys + d * kKeyGroup);
  if constexpr (n > 4) {
    for (; d < head_dim; d += 8) {
      for (int i = 0; i < n; i += 4) {
        write_keys_square<4>(k + d + i * row_stride, row_stride, keys + d * kKeyGroup + 2 * i);
      }
    }
  }
}

// Whether n tokens from `row` on have consecutive slots that begin at a multiple of n, as tokens of a prefill usually
// do.
bool are_neighbours(const KvWrite& write, std::int32_t row, std::int32_t n) {
  if (row + n > write.num_rows || write.slots[row] % n != 0) return false;
  for (std::int32_t i = 1; i < n; ++i) {
    if (write.slots[row + i] != write.slots[row] + i) return false;
  }
  return true;
}

// n consecutive tokens with finite V, from row r on.
template <int n>
void write_neighbours(const KvWrite& write, const Bf16* k, const Bf16* v, const Slot<Bf16>& slot) {
  const std::size_t head_dim = index(write.layout->head_dim), pair_row = 2 * index(write.layout->value_width);
  write_keys<n>(k, write.k_row_stride, head_dim, slot.keys);
  Bf16* values = slot.values;
  for (int i = 0; i < n; i += 2, v += 2 * write.v_row_stride, values += pair_row) {
    write_value_pair(v, v + write.v_row_stride, head_dim, values);
  }
}

void write_head(const KvWrite& write, std::size_t head, const Bf16* k, const Bf16* v) {
  const std::size_t head_dim = index(write.layout->head_dim);
  for (std::int32_t r = 0; r < write.num_rows;) {
    const Slot<Bf16> slot = slot_of<Bf16>(write, write.slots[r], head);
    const Bf16 *key = k + r * write.k_row_stride, *value = v + r * write.v_row_stride;
    const auto at_once = [&](std::int32_t n) {
      return are_neighbours(write, r, n) && all_finite(value, write.v_row_stride, n, head_dim);
    };
    if (kMaxTokens > 4 && at_once(kMaxTokens)) {
      write_neighbours<kMaxTokens>(write, key, value, slot);
      r += kMaxTokens;
    } else if (at_once(4)) {
      write_neighbours<4>(write, key, value, slot);
      r += 4;
    } else {
      const Written<Bf16> token = written(key, value, head_dim);
      write_key(token.k, head_dim, slot.keys);
      write_value(token.v, head_dim, slot);
      ++r;
    }
  }
}

void write_head(const KvWrite& write, std::size_t head, const float* k, const float* v) {
  const std::size_t head_dim = index(write.layout->head_dim);
  for (std::int32_t r = 0; r < write.num_rows; ++r) {
    const Slot<float> slot = slot_of<float>(write, write.slots[r], head);
    const Written<float> token = written(k + r * write.k_row_stride, v + r * write.v_row_stride, head_dim);
    write_key(token.k, head_dim, slot.keys);
    write_value(token.v, head_dim, slot);
  }
}

// Narrows numbers that were multiplied by the inverse of a scale.
MORTISE_INLINE void narrow(std::int8_t* q, F32x16 steps) {
  store_i8(q, to_int(steps));
}
MORTISE_INLINE void narrow(Fp8* q, F32x16 steps) {
  // store_i8 takes lanes of -128 .. 127.
  store_i8(reinterpret_cast<std::int8_t*>(q), shift_right_signed<24>(shift_left<24>(round_fp8(steps))));
}

// Quantises a head to int8 or E4M3 and pads it to a multiple of sixteen. Returns the scale.
template <class T, class E>
float quantize(const T* x, std::size_t head_dim, E* q) {
  constexpr float kMaxSteps = std::is_same_v<E, Fp8> ? 448 : 127;
  const IntScale scale = int_scale(largest_magnitude(x, head_dim), kMaxSteps);
  for (std::size_t d = 0; d < head_dim; d += kLanes) {
    // Not x * 0: x may hold a NaN.
    const bool any = scale.inverse != 0.0f;
    const F32x16 steps = any ? read_tail(x + d, lanes_left(head_dim - d)) * broadcast(scale.inverse) : zero();
    narrow(q + d, steps);
  }
  return scale.scale;
}

// Four consecutive tokens, one word per element instead of four bytes. `keys` is the slot of the first token.
template <class E>
void write_four_keys(const E (&q)[4][kMaxHeadDim], std::size_t head_dim, E* keys) {
  const auto lanes_of = [&](std::size_t token, std::size_t d) {
    return load_u8(reinterpret_cast<const std::uint8_t*>(q[token] + d));
  };
  for (std::size_t d = 0; d < head_dim; d += kLanes) {
    alignas(64) std::int32_t words[kLanes];  // little-endian: the first token is in the lowest byte
    store(words, lanes_of(0, d) | shift_left<8>(lanes_of(1, d)) | shift_left<16>(lanes_of(2, d)) |
                     shift_left<24>(lanes_of(3, d)));
    for (std::size_t i = 0; i < lanes_left(head_dim - d); ++i) {
      std::memcpy(keys + (d + i) * kKeyGroup, &words[i], sizeof words[i]);
    }
  }
}

template <class E, class T>
void write_head_bytes(const KvWrite& write, std::size_t head, const T* k, const T* v) {
  const std::size_t head_dim = index(write.layout->head_dim), width = index(write.layout->value_width);
  alignas(64) E q[4][kMaxHeadDim];
  for (std::int32_t r = 0; r < write.num_rows;) {
    const Slot<E> slot = slot_of<E>(write, write.slots[r], head);
    const std::int32_t tokens = are_neighbours(write, r, 4) ? 4 : 1;
    Written<T> token[4];
    for (std::int32_t i = 0; i < tokens; ++i) {
      token[i] = written(k + (r + i) * write.k_row_stride, v + (r + i) * write.v_row_stride, head_dim);
      slot.key_scale[i] = quantize(token[i].k, head_dim, q[i]);
    }
    tokens == 4 ? write_four_keys(q, head_dim, slot.keys) : write_key(q[0], head_dim, slot.keys);
    for (std::int32_t i = 0; i < tokens; ++i) {
      slot.value_scale[i] = quantize(token[i].v, head_dim, q[0]);
      std::memcpy(slot.values + index(i) * width, q[0], head_dim);
    }
    r += tokens;
  }
}

template <class E, class T>
void write_byte_rows(const KvWrite& write) {
  for (std::int32_t h = 0; h < write.layout->num_kv_heads; ++h) {
    write_head_bytes<E>(write, index(h), static_cast<const T*>(write.k) + h * write.k_head_stride,
                        static_cast<const T*>(write.v) + h * write.v_head_stride);
  }
}

template <class T>
void write_rows(const KvWrite& write) {
  for (std::int32_t h = 0; h < write.layout->num_kv_heads; ++h) {
    write_head(write, index(h), static_cast<const T*>(write.k) + h * write.k_head_stride,
               static_cast<const T*>(write.v) + h * write.v_head_stride);
  }
}

}  // namespace

extern const KvWriteKernels kKvWriteKernels;
constinit const KvWriteKernels kKvWriteKernels = {
    .bf16 = write_rows<Bf16>,
    .f32 = write_rows<float>,
    .bf16_int8 = write_byte_rows<std::int8_t, Bf16>,
    .f32_int8 = write_byte_rows<std::int8_t, float>,
    .bf16_fp8 = write_byte_rows<Fp8, Bf16>,
    .f32_fp8 = write_byte_rows<Fp8, float>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
