// linear_block32 for AVX-512 (with VNNI if the file is compiled with it), AVX2 and portable code. A tile is a few rows
// times a few panels over all of K: the integer sums of a part stay in registers, and so do the f32 sums as far as
// there are registers. All rows of a chunk pass before the next panels, so these weights stay in a cache.
#include "kernels/cpu/linear_block32/linear_block32.hpp"

#include "kernels/cpu/linear_block32/factors.hpp"
#include "kernels/cpu/linear_block32/rows.hpp"
#include "kernels/cpu/linear_int/step.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Registers of a tile: an integer and an f32 sum per row and panel, the weights of each panel, and x.
#if defined(MORTISE_ISA_AVX512)
template <int bits>
constexpr std::size_t kRowBlock = 4;
constexpr std::size_t kPanelBlock = 2;  // 8 + 8 + 4 + 1 of 32
#elif defined(MORTISE_ISA_AVX2)
// Of 16 registers 8 and 6 have integer sums, and 4 weights; f32 sums are in memory. A prepared weight of 8 bits takes
// four registers, so more rows would put them in memory, too.
template <int bits>
constexpr std::size_t kRowBlock = bits == 4 ? 4 : 3;
constexpr std::size_t kPanelBlock = 1;
#else
template <int bits>
constexpr std::size_t kRowBlock = 1;
constexpr std::size_t kPanelBlock = 1;
#endif

// What the tiles of a call have in common.
struct Call {
  const LinearBlock32Args& args;
  Block32Rows rows;
  std::size_t panel_bytes;  // of values, from one panel to the next
  std::size_t groups;       // of a row
  std::size_t steps;        // of kIntStep columns, the last may be partly empty
  std::size_t steps_a_group;
  bool y_is_bf16;
};

template <std::size_t panels>
struct Factors {
  F32x16 scale[panels], minimum[panels];
};

// The scales and minima of group g of the panels from `panel` on.
template <bool with_minima, std::size_t panels>
MORTISE_INLINE Factors<panels> factors_of(const Call& c, std::size_t panel, std::size_t g) {
  Factors<panels> f;
#pragma GCC unroll 4
  for (std::size_t j = 0; j < panels; ++j) {
    const std::size_t at = ((panel + j) * c.groups + g) * kLanes;
    f.scale[j] = load_factors(c.args, c.args.scales, at);
    if constexpr (with_minima) f.minimum[j] = load_factors(c.args, c.args.minima, at);
  }
  return f;
}

// Where a tile stands in its rows: at the values, the scale and the numbers of a part of its first row. By value, so
// that the compiler keeps it in registers.
struct Position {
  const std::int8_t* x;
  std::size_t x_stride;
  const float* scale;
  std::size_t blocks;
  const std::int32_t* start;
  const float* sum;
  std::size_t parts;
};

MORTISE_INLINE Position position_of(const Block32Rows& rows, std::size_t m) {
  return {rows.x + m * rows.x_stride,
          rows.x_stride,
          rows.scales + m * rows.blocks,
          rows.blocks,
          rows.starts + m * rows.parts,
          rows.sums + m * rows.parts,
          rows.parts};
}

// acc += the part of `columns` columns at `at` and at `w`, of panels that are panel_bytes apart.
template <int bits, std::size_t columns, bool with_minima, std::size_t rows, std::size_t panels>
MORTISE_INLINE void add_part(const Position& at, const std::uint8_t* w, std::size_t panel_bytes,
                             const Factors<panels>& f, F32x16 (&acc)[rows][panels]) {
  I32x16 partial[rows][panels];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) partial[i][j] = broadcast_i32(0);
  }
  multiply_step<bits, columns>(at.x, at.x_stride, w, panel_bytes, partial);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < rows; ++i) {
    const I32x16 start = broadcast_i32(at.start[i * at.parts]);
    const F32x16 scale = broadcast(at.scale[i * at.blocks]);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) {
      const F32x16 dot = to_float(IntDot<bits>::finish(start, partial[i][j]));
      acc[i][j] = fma(dot, f.scale[j] * scale, acc[i][j]);
      if constexpr (with_minima) acc[i][j] = fma(f.minimum[j], broadcast(at.sum[i * at.parts]), acc[i][j]);
    }
  }
}

template <class Y, std::size_t rows, std::size_t panels>
MORTISE_INLINE void write_tile(const LinearBlock32Args& args, std::size_t m, std::size_t n,
                               const F32x16 (&acc)[rows][panels]) {
  for (std::size_t j = 0; j < panels; ++j) {
    const std::size_t column = n + j * kLanes, count = lanes_left(args.n - column);
    const F32x16 bias = args.bias != nullptr ? load_tail(args.bias + column, count) : zero();
    for (std::size_t i = 0; i < rows; ++i) {
      const F32x16 y = args.bias != nullptr ? acc[i][j] + bias : acc[i][j];
      write_tail(static_cast<Y*>(args.y) + (m + i) * args.y_stride + column, y, count);
    }
  }
}

// Rows m .. m + rows - 1 times the panels from column n on.
template <int bits, bool halves, bool with_minima, std::size_t rows, std::size_t panels>
[[gnu::noinline]] void multiply_tile(const Call& c, std::size_t m, std::size_t n) {
  F32x16 acc[rows][panels];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) acc[i][j] = zero();
  }
  const std::size_t panel = n / kLanes;
  const std::uint8_t* w = c.args.values + panel * c.panel_bytes;
  Position at = position_of(c.rows, m);
  const std::size_t panel_bytes = c.panel_bytes;
  if constexpr (halves) {
    constexpr std::size_t kHalf = kIntStep / 2;
    for (std::size_t g = 0; g < c.groups; ++g, w += kStepBytes<bits> / 2) {
      const auto factors = factors_of<with_minima, panels>(c, panel, g);
      add_part<bits, kHalf, with_minima>(at, w, panel_bytes, factors, acc);
      at.x += kHalf, at.start += 1, at.sum += 1, at.scale += g % 2;
    }
  } else {
    for (std::size_t g = 0, t = 0; g < c.groups; ++g) {
      const auto factors = factors_of<with_minima, panels>(c, panel, g);
      for (const std::size_t end = minimum(t + c.steps_a_group, c.steps); t < end; ++t, w += kStepBytes<bits>) {
        add_part<bits, kIntStep, with_minima>(at, w, panel_bytes, factors, acc);
        at.x += kIntStep, at.start += 1, at.sum += 1, at.scale += 1;
      }
    }
  }
  c.y_is_bf16 ? write_tile<Bf16>(c.args, m, n, acc) : write_tile<float>(c.args, m, n, acc);
}

template <int bits, bool halves, bool with_minima, std::size_t panels, std::size_t rows = kRowBlock<bits>>
void multiply_rows(const Call& c, std::size_t m0, std::size_t m1, std::size_t n) {
  // One row alone would cost as much as two: rows + 1 are divided into two tiles of about the same size.
  for (; m1 - m0 >= rows && (rows < 3 || m1 - m0 != rows + 1); m0 += rows) {
    multiply_tile<bits, halves, with_minima, rows, panels>(c, m0, n);
  }
  if constexpr (rows > 1) {
    if (m0 < m1) multiply_rows<bits, halves, with_minima, panels, rows - 1>(c, m0, m1, n);
  }
}

template <int bits, bool halves, bool with_minima>
void run_format(const LinearBlock32Args& args, const LinearRange& range, bool y_is_bf16) {
  const std::size_t group = minimum(args.format.group_size, args.k);
  const Call call = {args,
                     block32_rows(args),
                     int_depth(args.k) / kIntStep * kStepBytes<bits>,
                     (args.k + group - 1) / group,
                     (args.k + kIntStep - 1) / kIntStep,
                     (group + kIntStep - 1) / kIntStep,
                     y_is_bf16};
  std::size_t n = range.n0;
  for (; n + (kPanelBlock - 1) * kLanes < range.n1; n += kPanelBlock * kLanes) {
    multiply_rows<bits, halves, with_minima, kPanelBlock>(call, range.m0, range.m1, n);
  }
  for (; n < range.n1; n += kLanes) multiply_rows<bits, halves, with_minima, 1>(call, range.m0, range.m1, n);
}

template <int bits>
void run_bits(const LinearBlock32Args& args, const LinearRange& range, bool y_is_bf16) {
  const bool halves = args.format.group_size == kBlock32 / 2, with_minima = args.format.has_minima;
  const auto run = halves ? (with_minima ? run_format<bits, true, true> : run_format<bits, true, false>)
                          : (with_minima ? run_format<bits, false, true> : run_format<bits, false, false>);
  run(args, range, y_is_bf16);
}

template <class Y>
void run(const LinearBlock32Args& args, const LinearRange& range) {
  const bool y_is_bf16 = sizeof(Y) == sizeof(Bf16);
  args.format.bits == 4 ? run_bits<4>(args, range, y_is_bf16) : run_bits<8>(args, range, y_is_bf16);
}

}  // namespace

extern const LinearBlock32Kernels kLinearBlock32Kernels;
constinit const LinearBlock32Kernels kLinearBlock32Kernels = {
    .scratch_bytes = Block32Rows::bytes,
    .prepare_bf16 = quantize_rows_in_blocks<Bf16>,
    .prepare_f32 = quantize_rows_in_blocks<float>,
    .to_bf16 = run<Bf16>,
    .to_f32 = run<float>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
