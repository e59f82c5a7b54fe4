/* mortise/numerics.h: docs/numerics.md as code, one number or one row at a time. A kernel that belongs to a numerics
 * class equals these functions bit by bit; test yours against them, or begin with them. C11 and C++17, all inline. Not
 * part of the ABI: compiled into the plugin. Since 0.6.
 *
 * Numbers are float. With the argument `bf16` not 0, arguments and results hold values of bfloat16. Functions that
 * round do so to the type that `bf16` says, and turn each NaN into the one NaN that is stored.
 *
 * REQUIRES of all but the conversions: mortise_denormals_off() on this thread, and -ffp-contract=off, which
 * mortise_add_plugin sets. [any thread] */
#ifndef MORTISE_NUMERICS_H
#define MORTISE_NUMERICS_H

#include <stdlib.h>
#include <string.h>

#include "mortise/device.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "mortise/numerics.h: say here how this processor turns denormals off, and how it takes a square root"
#endif

/* --- the rules for everything --- */

/* Turns denormals off on this thread, and sets rounding to nearest. Returns the value to pass to
 * mortise_denormals_restore. */
static inline uint64_t mortise_denormals_off(void) {
#if defined(__SSE2__)
  const uint64_t saved = _mm_getcsr();
  _mm_setcsr(0x9fc0); /* flush to zero, denormals are zero, no exceptions, nearest */
#else
  uint64_t saved;
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
  __asm__ volatile("msr fpcr, %0" ::"r"(UINT64_C(1) << 24));
#endif
  return saved;
}
static inline void mortise_denormals_restore(uint64_t saved) {
#if defined(__SSE2__)
  _mm_setcsr((uint32_t)saved);
#else
  __asm__ volatile("msr fpcr, %0" ::"r"(saved));
#endif
}

static inline uint32_t mortise_bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float mortise_float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#define MORTISE_NAN mortise_float_of(0x7fc00000u)
#define MORTISE_INFINITY mortise_float_of(0x7f800000u)

static inline float mortise_from_bf16(uint16_t half) {
  return mortise_float_of((uint32_t)half << 16);
}
static inline uint16_t mortise_to_bf16(float x) {
  const uint32_t u = mortise_bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
static inline float mortise_from_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 1023u;
  if (exponent == 31) return fraction != 0 ? MORTISE_NAN : mortise_float_of(sign | 0x7f800000u);
  if (exponent == 0) { /* a whole number times 2^-24 */
    const float magnitude = (float)fraction * 0x1p-24f;
    return mortise_float_of(mortise_bits_of(magnitude) | sign);
  }
  return mortise_float_of(sign | (exponent + 112u) << 23 | fraction << 13);
}
/* round(x) of the specification. */
static inline float mortise_round(float x, int bf16) {
  if (bf16) return mortise_from_bf16(mortise_to_bf16(x));
  return x == x ? x : MORTISE_NAN;
}

/* Reads n numbers of type bf16, f16 or f32, `stride` elements apart. Exact. */
static inline void mortise_load(const void* from, int32_t dtype, int64_t stride, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) {
    if (dtype == MORTISE_F32) {
      memcpy(&to[i], (const float*)from + i * stride, sizeof(float));
    } else {
      const uint16_t half = ((const uint16_t*)from)[i * stride];
      to[i] = dtype == MORTISE_BF16 ? mortise_from_bf16(half) : mortise_from_f16(half);
    }
  }
}
/* Writes n numbers side by side as bf16 (rounded) or f32. */
static inline void mortise_store(const float* from, int32_t dtype, int64_t n, void* to) {
  for (int64_t i = 0; i < n; ++i) {
    if (dtype == MORTISE_BF16) {
      ((uint16_t*)to)[i] = mortise_to_bf16(from[i]);
    } else {
      ((float*)to)[i] = from[i] == from[i] ? from[i] : MORTISE_NAN;
    }
  }
}

/* Rounds to float; what is below 2^-126 after rounding becomes a zero of its sign. AArch64 flushes before it rounds, so
 * the numbers that round up to 2^-126 are rounded here. */
static inline float mortise_narrow(double x) {
#if defined(__aarch64__)
  const double magnitude = x < 0 ? -x : x;
  if (magnitude < 0x1p-126 && magnitude >= 0x1p-126 - 0x1p-151) return x < 0 ? -0x1p-126f : 0x1p-126f;
#endif
  return (float)x;
}

/* a * b. Sums, differences and quotients need no function: none of them rounds up to 2^-126. */
static inline float mortise_product(float a, float b) {
#if defined(__aarch64__)
  return mortise_narrow((double)a * (double)b);
#else
  return a * b;
#endif
}

/* a * b + c with one rounding. Without the instruction: the product is exact in double, and the sum is rounded to odd
 * (Boldo and Melquiond 2008), so that rounding it again to float is right; that conversion flushes denormals. */
static inline float mortise_fma(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
#if defined(__aarch64__)
  const float fused = __builtin_fmaf(a, b, c);
  if (fused != 0) return fused; /* a zero may be a flushed result that rounds up */
#endif
  const double p = (double)a * (double)b, d = (double)c;
  const double s = p + d;
  const double d_part = s - p;
  const double error = (p - (s - d_part)) + (d - d_part); /* NaN if the sum is not finite */
  uint64_t u, e;
  double odd;
  memcpy(&u, &s, sizeof u);
  memcpy(&e, &error, sizeof e);
  if ((error < 0 || error > 0) && (u & 1u) == 0) u += ((e ^ u) >> 63) != 0 ? UINT64_MAX : 1u;
  memcpy(&odd, &u, sizeof odd);
  return mortise_narrow(odd);
#endif
}

static inline float mortise_sqrt(float x) {
#if defined(__SSE2__)
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
#else
  float root;
  __asm__("fsqrt %s0, %s1" : "=w"(root) : "w"(x));
  return root;
#endif
}

/* Adds sixteen lanes as a tree. Overwrites them. */
static inline float mortise_tree_sum(float lanes[16]) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  }
  return lanes[0];
}

/* --- functions --- */

/* c[0] + c[1] x + c[2] x^2 + .., from the highest power down. */
static inline float mortise_polynomial(float x, const float* c, int n) {
  float r = c[n - 1];
  for (int i = n - 2; i >= 0; --i) r = mortise_fma(r, x, c[i]);
  return r;
}
/* The nearest whole number, ties to even. REQUIRES: |x| < 2^51. */
static inline double mortise_nearest(double x) {
  return (x + 0x1.8p52) - 0x1.8p52;
}
static inline float mortise_times_power_of_two(float p, int n) {
  return mortise_float_of(mortise_bits_of(p) + ((uint32_t)n << 23));
}
static inline float mortise_exp2_of_parts(int n, float f) {
  static const float c[] = {0x1.62e43p-1f,  0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                            0x1.3b2d4cp-7f, 0x1.5f3e54p-10f, 0x1.41fbbcp-13f};
  return mortise_times_power_of_two(mortise_fma(f, mortise_polynomial(f, c, 6), 1.0f), n);
}
static inline float mortise_with_sign_of(float magnitude, float x) {
  return mortise_float_of((mortise_bits_of(magnitude) & 0x7fffffffu) | (mortise_bits_of(x) & 0x80000000u));
}
static inline float mortise_negative(float x) {
  return mortise_float_of(mortise_bits_of(x) ^ 0x80000000u);
}

static inline float mortise_exp2(float x) {
  if (x != x) return MORTISE_NAN;
  if (x <= -126.0f) return 0.0f;
  if (x >= 128.0f) return MORTISE_INFINITY;
  const int n = (int)mortise_nearest(x);
  return mortise_exp2_of_parts(n, x - (float)n);
}
static inline float mortise_exp(float x) {
  const float t = mortise_product(x, 0x1.715476p+0f);
  if (t != t) return MORTISE_NAN;
  if (t <= -126.0f) return 0.0f;
  if (t >= 128.0f) return MORTISE_INFINITY;
  const int n = (int)mortise_nearest(t);
  const float f = mortise_fma(x, 0x1.715476p+0f, -(float)n);
  return mortise_exp2_of_parts(n, mortise_fma(x, 0x1.4ae0c0p-26f, f));
}
static inline float mortise_log(float x) {
  static const float c[] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,  -0x1.555c4ep-3f, 0x1.233768p-3f,
                            -0x1.fc2208p-4f, 0x1.e6f06cp-4f,  -0x1.de3c14p-4f, 0x1.1457a2p-4f};
  if (x != x || x < 0) return MORTISE_NAN;
  if (x == 0) return mortise_negative(MORTISE_INFINITY);
  if (x == MORTISE_INFINITY) return x;
  const int exponent = (int32_t)(mortise_bits_of(x) - 0x3f3504f3u) >> 23; /* x = 2^exponent (1 + f) */
  const float e = (float)exponent;
  const float f = mortise_times_power_of_two(x, -exponent) - 1.0f;
  const float z = mortise_product(f, f);
  float r = mortise_product(mortise_product(f, z), mortise_polynomial(f, c, 9));
  r = mortise_fma(e, -0x1.bd0106p-13f, r);
  r = mortise_fma(-0.5f, z, r);
  return mortise_fma(e, 0x1.63p-1f, f + r);
}
static inline float mortise_log1p(float x) {
  const float u = x + 1.0f;
  const float lost = x - (u - 1.0f);
  if (x != x) return MORTISE_NAN;
  if (x == MORTISE_INFINITY) return x;
  if (u == 0) return mortise_negative(MORTISE_INFINITY);
  return mortise_log(u) + lost / u;
}
static inline float mortise_tanh(float x) {
  static const float c[] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c5ap-5f, 0x1.52269ap-6f, -0x1.75e1cap-8f};
  const float a = mortise_with_sign_of(x, 1.0f);
  if (a < 0.625f) {
    const float z = mortise_product(x, x);
    return mortise_fma(mortise_product(z, x), mortise_polynomial(z, c, 5), x);
  }
  return mortise_with_sign_of(1.0f - 2.0f / (mortise_exp(a + a) + 1.0f), x);
}
static inline float mortise_erf(float x) {
  static const float c[] = {0x1.06eba8p-3f, -0x1.812742p-2f,  0x1.ce2df4p-4f, -0x1.b80cb4p-6f,
                            0x1.54b5e4p-8f, -0x1.a99ef4p-11f, 0x1.5ac328p-14f};
  static const float d[] = {-0x1.20efc4p+0f, -0x1.452d3ep-1f, -0x1.b36b78p-4f, 0x1.8641a6p-6f,
                            -0x1.e0f674p-9f, 0x1.596c4ap-12f, -0x1.8ef9aep-17f};
  if (x != x) return MORTISE_NAN;
  const float a = mortise_with_sign_of(x, 1.0f);
  if (a < 0.9375f) return mortise_fma(x, mortise_polynomial(mortise_product(x, x), c, 7), x);
  const float t = a < 4.0f ? a : 4.0f;
  return mortise_with_sign_of(1.0f - mortise_exp(mortise_product(t, mortise_polynomial(t, d, 7))), x);
}

/* act(x) for MORTISE_ACT_*. */
static inline float mortise_activation(int32_t activation, float x) {
  switch (activation) {
    case MORTISE_ACT_SILU:
      return x / (1.0f + mortise_exp(mortise_negative(x)));
    case MORTISE_ACT_GELU:
      return mortise_product(mortise_product(x, 0.5f), 1.0f + mortise_erf(mortise_product(x, 0x1.6a09e6p-1f)));
    case MORTISE_ACT_GELU_TANH: {
      const float cube = mortise_product(mortise_product(x, x), x);
      const float inner = mortise_product(0x1.988454p-1f, mortise_fma(0x1.6e4e26p-5f, cube, x));
      return mortise_product(mortise_product(x, 0.5f), 1.0f + mortise_tanh(inner));
    }
    default: /* relu */
      return x <= 0 ? 0.0f : x;
  }
}

/* --- rows --- */

/* The orders of the sums of linear and attention. Pairs: a bf16 model on a device whose numerics id for bf16 is
 * "cpu-bf16-pairs/1". Tiles: everything else that this file specifies. */
typedef enum { MORTISE_SUM_TILES = 0, MORTISE_SUM_PAIRS = 1 } mortise_sum_order;

/* The order that a numerics id says: "cpu-bf16-pairs/1" and "attention-span256-pairs/1" are pairs. `id` may be NULL. */
static inline mortise_sum_order mortise_sum_order_of(const char* id) {
  return id != NULL && strstr(id, "-pairs/") != NULL ? MORTISE_SUM_PAIRS : MORTISE_SUM_TILES;
}

/* One output of linear, without the bias. Both orders go through depth tiles of 32; elements that the last depth tile
 * lacks count as 0 times 0, which turns a negative zero into a positive one.
 * Tiles: each depth tile has an even and an odd chain. Pairs: one chain, the odd element of each pair first. */
static inline float mortise_dot_in(mortise_sum_order order, const float* x, const float* w, int64_t n) {
  float acc = 0;
  for (int64_t tile = 0; tile < n; tile += 32) {
    float a = order == MORTISE_SUM_PAIRS ? acc : 0, b = 0;
    float* const odd = order == MORTISE_SUM_PAIRS ? &a : &b;
    for (int64_t k = tile; k < tile + 32; k += 2) {
      *odd = k + 1 < n ? mortise_fma(x[k + 1], w[k + 1], *odd) : mortise_fma(0, 0, *odd);
      a = k < n ? mortise_fma(x[k], w[k], a) : mortise_fma(0, 0, a);
    }
    acc = order == MORTISE_SUM_PAIRS ? a : acc + (a + b);
  }
  return acc;
}
static inline float mortise_dot(const float* x, const float* w, int64_t n) {
  return mortise_dot_in(MORTISE_SUM_TILES, x, w, n);
}

static inline float mortise_inverse_deviation(const float* x, int64_t n, float mean, float eps) {
  float lanes[16] = {0};
  for (int64_t i = 0; i < n; ++i) {
    const float d = x[i] - mean;
    lanes[i % 16] = mortise_fma(d, d, lanes[i % 16]);
  }
  return 1.0f / mortise_sqrt(mortise_tree_sum(lanes) / (float)n + eps);
}
/* RMS norm of the row x [n], to which the residual has already been added and rounded. `out` may be x. */
static inline void mortise_rms_norm(int bf16, const float* x, const float* weight, float eps, int64_t n, float* out) {
  const float inverse = mortise_inverse_deviation(x, n, 0.0f, eps);
  for (int64_t i = 0; i < n; ++i) {
    const float normed = mortise_round(mortise_product(x[i], inverse), bf16);
    out[i] = mortise_round(mortise_product(weight[i], normed), bf16);
  }
}
/* Layer norm of such a row. `bias` may be NULL. */
static inline void mortise_layer_norm(int bf16, const float* x, const float* weight, const float* bias, float eps,
                                      int64_t n, float* out) {
  float lanes[16] = {0};
  for (int64_t i = 0; i < n; ++i) lanes[i % 16] = lanes[i % 16] + x[i];
  const float mean = mortise_tree_sum(lanes) / (float)n;
  const float inverse = mortise_inverse_deviation(x, n, mean, eps);
  for (int64_t i = 0; i < n; ++i) {
    const float normed = mortise_product(x[i] - mean, inverse);
    out[i] = mortise_round(bias == NULL ? mortise_product(normed, weight[i]) : mortise_fma(normed, weight[i], bias[i]),
                           bf16);
  }
}
/* Rotates one head in place; cos and sin [rotary_dim / 2] are the rows of the token's position. */
static inline void mortise_rotate(int bf16, int interleaved, const float* cos, const float* sin, int64_t rotary_dim,
                                  float* x) {
  const int64_t half = rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
    const float a = mortise_product(x[first], cos[i]), b = mortise_product(x[second], sin[i]);
    const float c = mortise_product(x[second], cos[i]), d = mortise_product(x[first], sin[i]);
    x[first] = mortise_round(a - b, bf16);
    x[second] = mortise_round(c + d, bf16);
  }
}

/* --- attention, ids "attention-span256/1" (tiles) and "attention-span256-pairs/1" (pairs) --- */

enum { MORTISE_SPAN_KEYS = 256 };

/* The factor c of docs/numerics.md, "Attention". */
static inline float mortise_span_scale(float attention_scale) {
  return (float)((double)attention_scale * 1.4426950408889634074);
}

/* Changes a token's K and V [head_dim] of one head as they are written to the cache: if any element of V is not finite,
 * all of K becomes NaN and all of V becomes 0. */
static inline void mortise_span_written(float* k, float* v, int64_t head_dim) {
  int finite = 1;
  for (int64_t d = 0; d < head_dim; ++d) finite = finite && v[d] - v[d] == 0;
  for (int64_t d = 0; d < head_dim && !finite; ++d) k[d] = MORTISE_NAN, v[d] = 0;
}

/* Computes the partial of one span for the row q [head_dim]: its maximum, sum and o [head_dim]. k and v [num_keys,
 * head_dim] hold the keys of the span that the row sees, which are consecutive. `first_in_span`, 0 .. 255, is the place
 * of the first of them in the span. `scale` is mortise_span_scale(). REQUIRES: num_keys >= 1. */
static inline void mortise_span_partial_in(mortise_sum_order order, int bf16, const float* q, const float* k,
                                           const float* v, int64_t first_in_span, int64_t num_keys, int64_t head_dim,
                                           float scale, float* max, float* sum, float* o) {
  float p[MORTISE_SPAN_KEYS] = {0}, column[MORTISE_SPAN_KEYS] = {0}, lanes[16] = {0};
  float largest = mortise_negative(MORTISE_INFINITY);
  for (int64_t i = 0; i < num_keys; ++i) {
    const float t = mortise_product(mortise_dot_in(order, q, k + i * head_dim, head_dim), scale);
    p[first_in_span + i] = t;
    largest = largest < t ? t : largest;
  }
  for (int64_t i = first_in_span; i < first_in_span + num_keys; ++i) {
    p[i] = mortise_round(mortise_exp2(p[i] - largest), bf16);
  }
  for (int64_t i = 0; i < MORTISE_SPAN_KEYS; ++i) lanes[i % 16] = lanes[i % 16] + p[i];
  for (int64_t d = 0; d < head_dim; ++d) {
    for (int64_t i = 0; i < num_keys; ++i) column[first_in_span + i] = v[i * head_dim + d];
    o[d] = mortise_dot_in(order, p, column, first_in_span + num_keys) + 0.0f;
  }
  max[0] = largest;
  sum[0] = mortise_tree_sum(lanes);
}
static inline void mortise_span_partial(int bf16, const float* q, const float* k, const float* v, int64_t first_in_span,
                                        int64_t num_keys, int64_t head_dim, float scale, float* max, float* sum,
                                        float* o) {
  mortise_span_partial_in(MORTISE_SUM_TILES, bf16, q, k, v, first_in_span, num_keys, head_dim, scale, max, sum, o);
}

/* Computes the attention `out` [head_dim] of the row q at `position`. k and v [num_keys, head_dim] hold the keys that
 * the row sees: the last num_keys of positions 0 .. position. `scratch` has room for 2 * head_dim numbers. */
static inline void mortise_attention_row_in(mortise_sum_order order, int bf16, const float* q, const float* k,
                                            const float* v, int64_t position, int64_t num_keys, int64_t head_dim,
                                            float scale, float* scratch, float* out) {
  float *o1 = scratch, *o2 = scratch + head_dim, m1 = 0, m2 = 0, sum1 = 0, sum2 = 0;
  int seen = 0;
  for (int64_t key = position + 1 - num_keys; key <= position;) {
    const int64_t in_span = key % MORTISE_SPAN_KEYS, at = key - (position + 1 - num_keys);
    int64_t count = MORTISE_SPAN_KEYS - in_span;
    if (count > position + 1 - key) count = position + 1 - key;
    mortise_span_partial_in(order, bf16, q, k + at * head_dim, v + at * head_dim, in_span, count, head_dim, scale, &m2,
                            &sum2, seen ? o2 : o1);
    key += count;
    if (!seen) {
      m1 = m2, sum1 = sum2, seen = 1;
      continue;
    }
    const float m = m1 > m2 ? m1 : m2;
    const float w1 = mortise_exp2(m1 - m), w2 = mortise_exp2(m2 - m);
    const float left = mortise_product(sum1, w1), right = mortise_product(sum2, w2);
    sum1 = left + right;
    for (int64_t d = 0; d < head_dim; ++d) {
      const float o_left = mortise_product(o1[d], w1), o_right = mortise_product(o2[d], w2);
      o1[d] = o_left + o_right;
    }
    m1 = m;
  }
  for (int64_t d = 0; d < head_dim; ++d) out[d] = mortise_round(seen ? o1[d] / sum1 : 0.0f, bf16);
}
static inline void mortise_attention_row(int bf16, const float* q, const float* k, const float* v, int64_t position,
                                         int64_t num_keys, int64_t head_dim, float scale, float* scratch, float* out) {
  mortise_attention_row_in(MORTISE_SUM_TILES, bf16, q, k, v, position, num_keys, head_dim, scale, scratch, out);
}

/* --- logits --- */

enum { MORTISE_VOCAB_SLICE = 2048 };

static inline float mortise_clean(float logit) {
  const uint32_t u = mortise_bits_of(logit), magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return mortise_negative(MORTISE_INFINITY);
  if (u == 0x7f800000u) return mortise_float_of(0x7f7fffffu);
  return magnitude < 0x00800000u ? 0.0f : logit;
}
/* Folds a range of logits into a row's running maximum and sum of exp(logit - maximum), slice by slice. The range
   begins at a multiple of MORTISE_VOCAB_SLICE. */
static inline void mortise_log_sum_exp(const float* logits, int64_t columns, float* max, float* sum) {
  const float nothing = mortise_negative(MORTISE_INFINITY);
  for (int64_t begin = 0; begin < columns; begin += MORTISE_VOCAB_SLICE) {
    const int64_t end = begin + MORTISE_VOCAB_SLICE < columns ? begin + MORTISE_VOCAB_SLICE : columns;
    float m = nothing, lanes[16] = {0};
    for (int64_t i = begin; i < end; ++i) m = m < mortise_clean(logits[i]) ? mortise_clean(logits[i]) : m;
    if (m == nothing) continue;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t lane = (i - begin) % 16;
      lanes[lane] = lanes[lane] + mortise_exp(mortise_clean(logits[i]) - m);
    }
    const float merged = max[0] < m ? m : max[0];
    const float left = mortise_product(sum[0], mortise_exp(max[0] - merged));
    const float right = mortise_product(mortise_tree_sum(lanes), mortise_exp(m - merged));
    max[0] = merged;
    sum[0] = left + right;
  }
}

/* The first two output words of Philox4x32-10 with this counter. */
static inline void mortise_philox(uint64_t key, uint64_t position, uint32_t c2, uint32_t c3, uint32_t words[2]) {
  uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = UINT64_C(0xD2511F53) * c0, p1 = UINT64_C(0xCD9E8D57) * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  words[0] = c0;
  words[1] = c1;
}
/* The noise of a token: g of docs/numerics.md, "Sampling". */
static inline float mortise_noise(uint64_t key, uint64_t position, int32_t token) {
  uint32_t r[2];
  mortise_philox(key, position, (uint32_t)token, 0, r);
  if (r[0] < 0x80000000u) return -mortise_log(-mortise_log1p(-(((float)r[0] + 0.5f) * 0x1p-32f)));
  return -mortise_log(-mortise_log(((float)(0xffffffffu - r[0]) + 0.5f) * 0x1p-32f));
}

/* One row to draw a token from; the fields are those of mortise_sample_args. */
typedef struct mortise_sample_row {
  const float* logits; /* [vocab_size] */
  int64_t vocab_size;
  float temperature, top_p, min_p;
  int32_t top_k;
  uint64_t key, position;
  const mortise_logit_edit* edits;
  int64_t num_edits;
  const uint32_t* allowed; /* a bit for each token; NULL: all are allowed */
} mortise_sample_row;
typedef struct mortise_candidate {
  float x;
  int32_t token;
} mortise_candidate;

static inline int mortise_compare_candidates(const void* left, const void* right) {
  const mortise_candidate a = *(const mortise_candidate*)left, b = *(const mortise_candidate*)right;
  if (a.x != b.x) return a.x > b.x ? -1 : 1;
  return a.token < b.token ? -1 : a.token > b.token;
}
/* round(p * 2^32) */
static inline uint64_t mortise_weight_of(float p) {
  return (uint64_t)mortise_nearest((double)p * 0x1p32);
}

/* Puts the tokens that can be drawn into `scratch`, in their order: with temperature 0 all of them, else those that the
 * filters leave. Returns their number. */
static inline int64_t mortise_filter_tokens(const mortise_sample_row* row, mortise_candidate* scratch) {
  const float nothing = mortise_negative(MORTISE_INFINITY);
  const int greedy = !(row->temperature > 0);
  int64_t n = 0;
  for (int64_t i = 0; i < row->vocab_size; ++i) scratch[i].x = row->logits[i], scratch[i].token = (int32_t)i;
  for (int64_t e = 0; e < row->num_edits; ++e) {
    float l = scratch[row->edits[e].token].x;
    l = l + row->edits[e].bias;
    l = l > 0 ? l / row->edits[e].repetition : mortise_product(l, row->edits[e].repetition);
    scratch[row->edits[e].token].x = l - row->edits[e].subtract;
  }
  for (int64_t i = 0; i < row->vocab_size; ++i) { /* n <= i: candidates move to the front */
    float x = mortise_clean(scratch[i].x);
    if (row->allowed != NULL && (row->allowed[i / 32] >> (i % 32) & 1u) == 0) continue;
    if (x == nothing) continue;
    if (!greedy) x = mortise_clean(x / row->temperature);
    if (x == nothing) continue;
    scratch[n].x = x;
    scratch[n++].token = (int32_t)i;
  }
  if (n == 0) return 0;
  qsort(scratch, (size_t)n, sizeof *scratch, mortise_compare_candidates);
  if (greedy) return n;

  const float max = scratch[0].x;
  if (row->min_p > 0) {
    const float bound = max + mortise_log(row->min_p < 1.0f ? row->min_p : 1.0f);
    while (n > 1 && !(scratch[n - 1].x >= bound)) --n;
  }
  if (row->top_k > 0 && row->top_k < n) n = row->top_k;
  if (row->top_p < 1) {
    __extension__ typedef unsigned __int128 wide;
    uint64_t total = 0, sum = 0;
    for (int64_t i = 0; i < n; ++i) total += mortise_weight_of(mortise_exp(scratch[i].x - max));
    const uint64_t p = row->top_p > 0 ? mortise_weight_of(row->top_p) : 0;
    const uint64_t need = (uint64_t)(((wide)p * total + 0xffffffffu) >> 32);
    int64_t kept = 0;
    do sum += mortise_weight_of(mortise_exp(scratch[kept++].x - max));
    while (kept < n && sum < need);
    n = kept;
  }
  return n;
}

/* Draws a token; -1 if none can be drawn. `logprob` may be NULL. `scratch` has room for vocab_size candidates. */
static inline int32_t mortise_sample_token(const mortise_sample_row* row, mortise_candidate* scratch, float* logprob) {
  const float nothing = mortise_negative(MORTISE_INFINITY);
  const int64_t n = mortise_filter_tokens(row, scratch);
  if (logprob != NULL) logprob[0] = n == 0 ? nothing : 0.0f;
  if (n == 0) return -1;
  if (!(row->temperature > 0)) return scratch[0].token;
  const float max = scratch[0].x;
  uint64_t total = 0;
  int64_t best = 0;
  float best_score = nothing;
  for (int64_t i = 0; i < n; ++i) {
    const float score = scratch[i].x + mortise_noise(row->key, row->position, scratch[i].token);
    total += mortise_weight_of(mortise_exp(scratch[i].x - max));
    if (score > best_score || (score == best_score && scratch[i].token < scratch[best].token)) {
      best_score = score;
      best = i;
    }
  }
  if (logprob != NULL) logprob[0] = (scratch[best].x - max) - mortise_log((float)total * 0x1p-32f);
  return scratch[best].token;
}

/* --- rejection sampling --- */

/* A number in (0, 1) of 52 bits. `purpose`: 0 to accept a draft, 1 to recover. */
static inline double mortise_uniform(uint64_t key, uint64_t position, uint32_t purpose) {
  uint32_t r[2];
  mortise_philox(key, position, purpose, 1, r);
  return ((double)((uint64_t)(r[0] >> 6) << 26 | r[1] >> 6) + 0.5) * 0x1p-52;
}
/* The nearest integer, ties to even, of x in units of 2^-bits. REQUIRES: x * 2^bits is 0 .. 2^63. */
static inline uint64_t mortise_whole(double x, int bits) {
  const double scaled = x * (double)(UINT64_C(1) << bits);
  return (uint64_t)(scaled < 0x1p52 ? (scaled + 0x1p52) - 0x1p52 : scaled); /* larger ones are integers */
}
/* The probability of token i in the distribution of the draft: of its numbers as integers, `largest` being 2^32 and
 * `total` the sum; with `largest` 0 the draft was certain. */
static inline double mortise_draft_probability(const float* distribution, float largest, uint64_t total, int64_t i,
                                               int32_t draft) {
  if (largest == 0) return i == draft ? 1.0 : 0.0;
  return (double)mortise_whole((double)distribution[i] / (double)largest, 32) / (double)total;
}
/* What p has more than q, as an integer in units of 2^-60. */
static inline uint64_t mortise_excess(double p, double q) {
  return p > q ? mortise_whole(p - q, 60) : 0;
}

/* Verifies a draft: returns it, or the recovered token, or -1 if no token can be drawn. `weights` [vocab_size] has
 * round(exp(x - X) * 2^32) for each token that the filters leave, and 0 for the others. `distribution` [vocab_size] is
 * what the draft was drawn from; NULL: it was certain. */
static inline int32_t mortise_verify_draft(const uint64_t* weights, const float* distribution, int64_t vocab_size,
                                           int32_t draft, uint64_t key, uint64_t position) {
  uint64_t total = 0, draft_total = 0, excess = 0, sum = 0;
  float largest = 0;
  for (int64_t i = 0; i < vocab_size; ++i) {
    total += weights[i];
    if (distribution != NULL && distribution[i] > largest) largest = distribution[i];
  }
  if (total == 0) return -1;
  for (int64_t i = 0; largest > 0 && i < vocab_size; ++i) {
    draft_total += mortise_whole((double)distribution[i] / (double)largest, 32);
  }
  const double p_of_draft = (double)weights[draft] / (double)total;
  const double q_of_draft = mortise_draft_probability(distribution, largest, draft_total, draft, draft);
  if (mortise_uniform(key, position, 0) * q_of_draft < p_of_draft) return draft;
  for (int64_t i = 0; i < vocab_size; ++i) {
    excess += mortise_excess((double)weights[i] / (double)total,
                             mortise_draft_probability(distribution, largest, draft_total, i, draft));
  }
  if (excess == 0) return weights[draft] > 0 ? draft : -1; /* the distributions are equal, but for rounding */
  uint64_t wanted = (uint64_t)(mortise_uniform(key, position, 1) * (double)excess);
  if (wanted >= excess) wanted = excess - 1;
  int64_t token = -1;
  while (sum <= wanted) {
    ++token;
    sum += mortise_excess((double)weights[token] / (double)total,
                          mortise_draft_probability(distribution, largest, draft_total, token, draft));
  }
  return (int32_t)token;
}

#endif
