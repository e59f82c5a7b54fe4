// plugins/kernels/cpu/linear_block32/sums.hpp: adds the 32-bit sums of AMX tiles to the f32 sums over the parts of a
// row, and writes y after the last part. Sums lie as [parts][2 panels][32 rows][16].
#pragma once

#include "kernels/cpu/linear_block32/factors.hpp"
#include "kernels/cpu/linear_block32/rows.hpp"
#include "kernels/cpu/linear_int/pair_tiles.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// Tiles multiply the values as they are, so the starts of the sums must hold all of the zero point.
static_assert(IntDot<8>::kOffset == 0 && IntDot<4>::kOffset == 0);

// The form of a product. `halves`: parts of 16 columns. `with_starts`: the weight has a zero point.
struct Block32Form {
  bool halves, with_starts, with_minima;
};

// Parts whose sums are added at a time, so that fewer f32 sums pass through memory than with one. Two halves of a block
// share its scale.
constexpr std::size_t kPartsAtOnce = 2;

// Up to 32 rows of x times the columns [n0, n1) of y.
struct Block32Tiles {
  const LinearBlock32Args& args;
  Block32Rows rows;
  std::size_t m, count;
  std::size_t n0, n1;
  const std::uint8_t* w;    // a byte a weight, at the panel of n0
  std::size_t panel_bytes;  // from one panel to the next
  std::size_t parts;        // of a row that have columns
  std::size_t groups, parts_a_group;
  bool y_is_bf16;
  std::size_t fetch_end;  // weights up to this column are read for these rows only, and are prefetched
};

// Adds the sums of batches of parts, of one or two panels, a few rows at a time, and writes y after the last part. Used
// by one thread. Invariants: rows before row_ are done; unless the batch is the first of its panels, acc_ holds the f32
// sums over the parts before it, as [32 rows][2 panels][16].
template <Block32Form form>
class AddParts {
 public:
  // The parts [p, p + parts) of `panels` panels at column n.
  struct Batch {
    std::size_t n, panels, p, parts;
    const std::int32_t* sums;
  };

  explicit AddParts(const Block32Tiles& tiles) : tiles_(tiles), row_(tiles.count) {}
  // Starts a batch, which `steps` steps will finish. REQUIRES: the batch before is finished.
  void begin(const Batch& batch, std::size_t steps) {
    batch_ = batch;
    row_ = 0, rows_a_step_ = (tiles_.count + steps - 1) / steps;
    for (std::size_t j = 0; j < batch.panels; ++j) {
      for (std::size_t q = 0; q < batch.parts; ++q) {
        const std::size_t group = (batch.p + q) / tiles_.parts_a_group;
        const std::size_t at = ((batch.n / kLanes + j) * tiles_.groups + group) * kLanes;
        store(scales_[j][q], load_factors(tiles_.args, tiles_.args.scales, at));
        if constexpr (form.with_minima) store(minima_[j][q], load_factors(tiles_.args, tiles_.args.minima, at));
      }
    }
  }
  MORTISE_INLINE void step() { rows_until(row_ + rows_a_step_ < tiles_.count ? row_ + rows_a_step_ : tiles_.count); }
  void finish() { rows_until(tiles_.count); }

 private:
  MORTISE_INLINE void rows_until(std::size_t end) {
    if (row_ < end) rows(row_, end);
    row_ = end;
  }
  MORTISE_NOINLINE void rows(std::size_t i0, std::size_t i1) {
    batch_.panels == 2 ? add_panels<2>(i0, i1) : add_panels<1>(i0, i1);
    if (batch_.p + batch_.parts < tiles_.parts) return;
    tiles_.y_is_bf16 ? write<Bf16>(i0, i1) : write<float>(i0, i1);
  }
  template <std::size_t panels>
  MORTISE_INLINE void add_panels(std::size_t i0, std::size_t i1) {
    batch_.parts == kPartsAtOnce ? add<panels, kPartsAtOnce>(i0, i1) : add<panels, 1>(i0, i1);
  }
  // Everything is in local variables, because the compiler must assume that a store changes any other.
  template <std::size_t panels, std::size_t parts>
  MORTISE_INLINE void add(std::size_t i0, std::size_t i1) {
    const Block32Rows& x = tiles_.rows;
    const std::size_t m = tiles_.m + i0, p = batch_.p, parts_of_row = x.parts, blocks_of_row = x.blocks;
    F32x16 scale[panels][parts], minimum[panels][parts];
#pragma GCC unroll 2
    for (std::size_t j = 0; j < panels; ++j) {
#pragma GCC unroll 2
      for (std::size_t q = 0; q < parts; ++q) {
        scale[j][q] = load(scales_[j][q]);
        if constexpr (form.with_minima) minimum[j][q] = load(minima_[j][q]);
      }
    }
    const float* scale_of_x = x.scales + m * blocks_of_row + (form.halves ? p / 2 : p);
    const std::int32_t* start = x.starts + m * parts_of_row + p;
    const float* sum_of_x = x.sums + m * parts_of_row + p;
    const std::int32_t* sums = batch_.sums + i0 * kLanes;
    float* acc = acc_ + i0 * 2 * kLanes;
    for (std::size_t i = i0; i < i1; ++i) {
      F32x16 y[panels];
#pragma GCC unroll 2
      for (std::size_t j = 0; j < panels; ++j) y[j] = p == 0 ? zero() : load(acc + j * kLanes);
#pragma GCC unroll 2
      for (std::size_t q = 0; q < parts; ++q) {
        const F32x16 by = broadcast(scale_of_x[form.halves ? 0 : q]);
#pragma GCC unroll 2
        for (std::size_t j = 0; j < panels; ++j) {
          I32x16 dot = load_i32(sums + q * kPairSums + j * 2 * kTileSums);
          if constexpr (form.with_starts) dot = dot + broadcast_i32(start[q]);
          y[j] = fma(to_float(dot), scale[j][q] * by, y[j]);
          if constexpr (form.with_minima) y[j] = fma(minimum[j][q], broadcast(sum_of_x[q]), y[j]);
        }
      }
#pragma GCC unroll 2
      for (std::size_t j = 0; j < panels; ++j) store(acc + j * kLanes, y[j]);
      scale_of_x += blocks_of_row, start += parts_of_row, sum_of_x += parts_of_row;
      sums += kLanes, acc += 2 * kLanes;
    }
  }
  template <class Y>
  MORTISE_INLINE void write(std::size_t i0, std::size_t i1) const {
    const LinearBlock32Args& args = tiles_.args;
    for (std::size_t j = 0; j < batch_.panels; ++j) {
      const std::size_t column = batch_.n + j * kLanes, left = lanes_left(args.n - column);
      const F32x16 bias = args.bias != nullptr ? load_tail(args.bias + column, left) : zero();
      Y* out = static_cast<Y*>(args.y) + (tiles_.m + i0) * args.y_stride + column;
      for (std::size_t i = i0; i < i1; ++i, out += args.y_stride) {
        F32x16 y = load(acc_ + (i * 2 + j) * kLanes);
        if (args.bias != nullptr) y = y + bias;
        write_tail(out, y, left);
      }
    }
  }

  const Block32Tiles& tiles_;
  Batch batch_{};
  std::size_t row_, rows_a_step_ = 0;
  alignas(64) float scales_[2][kPartsAtOnce][kLanes];
  alignas(64) float minima_[2][kPartsAtOnce][kLanes];
  alignas(64) float acc_[kPairSums];
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
