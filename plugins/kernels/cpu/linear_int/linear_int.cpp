// linear_int for AVX-512 (with VNNI if the file is compiled with it), AVX2 and portable code. Partial sums of kIntStep
// k stay in registers. Sums of a group and f32 sums over groups stay in memory. All rows of a chunk pass before the
// next group, so the weights of a group stay in the first-level cache.
#include "kernels/cpu/linear_int/linear_int.hpp"

#include "kernels/cpu/linear_int/rows.hpp"
#include "kernels/cpu/linear_int/step.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Registers: one partial sum per row and panel, the weights of each panel (raw and prepared), and x.
#if defined(MORTISE_ISA_AVX512)
constexpr std::size_t kRowBlock = 4, kPanelBlock = 4;  // 16 + 8 + 1 of 32
#elif defined(MORTISE_ISA_AVX2)
constexpr std::size_t kRowBlock = 4, kPanelBlock = 1;  // 8 + 4 + 1 of 16: a vector is two registers
#elif defined(MORTISE_ISA_NEON)
constexpr std::size_t kRowBlock = 4, kPanelBlock = 1;  // 16 + 8 + 4 of 32: a vector is four registers
#else
constexpr std::size_t kRowBlock = 1, kPanelBlock = 1;
#endif
constexpr std::size_t kChunkRows = 96;
constexpr std::size_t kBlockSteps = 16;  // steps of a long group at a time: 32 KiB of four panels

// Adds `steps` steps to sums[i][j]; the first step sets them. Rows of x are x_stride apart, panels w_stride bytes
// apart.
template <int bits, std::size_t rows, std::size_t panels>
void multiply_block(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w, std::size_t w_stride,
                    std::size_t steps, bool first, std::int32_t* sums) {
  for (std::size_t t = 0; t < steps; ++t, first = false) {
    I32x16 partial[rows][panels];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < panels; ++j) partial[i][j] = broadcast_i32(0);
    }
    multiply_step<bits, kIntStep>(x + t * kIntStep, x_stride, w + t * kStepBytes<bits>, w_stride, partial);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < panels; ++j) {
        std::int32_t* sum = sums + (i * kPanelBlock + j) * kLanes;
        const I32x16 before = first ? broadcast_i32(0) : load_i32(sum);
        store(sum, IntDot<bits>::finish(before, partial[i][j]));
      }
    }
  }
}

template <int bits, std::size_t panels, std::size_t rows = kRowBlock>
void multiply_rows(const std::int8_t* x, std::size_t x_stride, std::size_t m, const std::uint8_t* w,
                   std::size_t w_stride, std::size_t steps, bool first, std::int32_t* sums) {
  for (; m >= rows; m -= rows) {
    multiply_block<bits, rows, panels>(x, x_stride, w, w_stride, steps, first, sums);
    x += rows * x_stride;
    sums += rows * kPanelBlock * kLanes;
  }
  if constexpr (rows > 1) {
    if (m > 0) multiply_rows<bits, panels, rows - 1>(x, x_stride, m, w, w_stride, steps, first, sums);
  }
}

// State of a chunk of rows times `panels` panels while K is processed.
struct Chunk {
  const LinearIntArgs& args;
  IntRows rows;
  std::size_t m0, count, column;
  std::int32_t* sums;  // [count][kPanelBlock][16], sums of the current group
  float* acc;          // the same shape: sums over groups
};

// acc += f32(sums - zero * sum of x) * scale, for group g.
template <int bits>
void add_group(const Chunk& c, std::size_t g, std::size_t panels) {
  for (std::size_t j = 0; j < panels; ++j) {
    const std::size_t at = ((c.column / kLanes + j) * c.rows.groups + g) * kLanes;
    const F32x16 scale = load(c.args.scales + at);
    const I32x16 zero = load_u8(c.args.zeros + at) - broadcast_i32(IntDot<bits>::kOffset);
    for (std::size_t i = 0; i < c.count; ++i) {
      const std::size_t offset = (i * kPanelBlock + j) * kLanes;
      const I32x16 sum_of_x = broadcast_i32(c.rows.sums[(c.m0 + i) * c.rows.groups + g]);
      const I32x16 dot = load_i32(c.sums + offset) - mul_lo(zero, sum_of_x);
      store(c.acc + offset, load(c.acc + offset) + to_float(dot) * scale);
    }
  }
}

template <class Y>
void finish(const Chunk& c, std::size_t panels) {
  for (std::size_t j = 0; j < panels; ++j) {
    const std::size_t n = c.column + j * kLanes;
    const std::size_t count = lanes_left(c.args.n - n);
    const F32x16 bias = c.args.bias != nullptr ? load_tail(c.args.bias + n, count) : zero();
    for (std::size_t i = 0; i < c.count; ++i) {
      F32x16 y = load(c.acc + (i * kPanelBlock + j) * kLanes) * broadcast(c.rows.scales[c.m0 + i]);
      if (c.args.bias != nullptr) y = y + bias;
      write_tail(static_cast<Y*>(c.args.y) + (c.m0 + i) * c.args.y_stride + n, y, count);
    }
  }
}

template <int bits, class Y, std::size_t panels>
void multiply_panels(const Chunk& c) {
  const std::size_t depth = int_depth(c.args.k), group = int_group(c.args.k, c.args.format.group_size);
  const std::size_t panel_bytes = depth / kIntStep * kStepBytes<bits>;
  const std::uint8_t* w = c.args.values + c.column / kLanes * panel_bytes;
  const std::int8_t* x = c.rows.x + c.m0 * c.rows.x_stride;
  std::memset(c.acc, 0, c.count * kPanelBlock * kLanes * sizeof(float));
  for (std::size_t g = 0; g < c.rows.groups; ++g) {
    const std::size_t first = g * group / kIntStep, last = minimum((g + 1) * group, depth) / kIntStep;
    for (std::size_t t = first; t < last; t += kBlockSteps) {
      multiply_rows<bits, panels>(x + t * kIntStep, c.rows.x_stride, c.count, w + t * kStepBytes<bits>, panel_bytes,
                                  minimum(kBlockSteps, last - t), t == first, c.sums);
    }
    add_group<bits>(c, g, panels);
  }
  finish<Y>(c, panels);
}

template <int bits, class Y>
void run_bits(const LinearIntArgs& args, const LinearRange& range) {
  alignas(64) std::int32_t sums[kChunkRows * kPanelBlock * kLanes];
  alignas(64) float acc[kChunkRows * kPanelBlock * kLanes];
  for (std::size_t m = range.m0; m < range.m1; m += kChunkRows) {
    const std::size_t count = minimum(kChunkRows, range.m1 - m);
    for (std::size_t n = range.n0; n < range.n1; n += kPanelBlock * kLanes) {
      const Chunk chunk = {args, int_rows(args), m, count, n, sums, acc};
      if (n + (kPanelBlock - 1) * kLanes < range.n1) {
        multiply_panels<bits, Y, kPanelBlock>(chunk);
      } else {
        for (std::size_t j = n; j < range.n1; j += kLanes) {
          multiply_panels<bits, Y, 1>({args, chunk.rows, m, count, j, sums, acc});
        }
      }
    }
  }
}

template <class Y>
void run(const LinearIntArgs& args, const LinearRange& range) {
  args.format.bits == 4 ? run_bits<4, Y>(args, range) : run_bits<8, Y>(args, range);
}

}  // namespace

extern const LinearIntKernels kLinearIntKernels;
constinit const LinearIntKernels kLinearIntKernels = {
    .scratch_bytes = IntRows::bytes,
    .prepare_bf16 = quantize_rows<Bf16>,
    .prepare_f32 = quantize_rows<float>,
    .to_bf16 = run<Bf16>,
    .to_f32 = run<float>,
    .can_gate = nullptr,
    .gated_to_bf16 = nullptr,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
