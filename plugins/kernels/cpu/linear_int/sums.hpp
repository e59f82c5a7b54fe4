// plugins/kernels/cpu/linear_int/sums.hpp: turns the 32-bit sums of AMX tiles into y, as jobs for Beside. Sums lie as
// [2 panels][32 rows][16]; the sixteen rows of a tile are contiguous.
#pragma once

#include "kernels/cpu/linear_int/linear_int.hpp"
#include "kernels/cpu/linear_int/pair_tiles.hpp"
#include "kernels/cpu/linear_int/rows.hpp"
#include "kernels/cpu/rows/gate.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// 2: fewer f32 sums pass through memory; with more groups, sums push x out of the cache.
constexpr std::size_t kGroupsAtOnce = 2;

// Up to 32 rows of x times the columns [n0, n1) of y. Two panels are multiplied at a time: two neighbours, or a panel
// of gates and the panel that it gates.
struct IntBlock {
  const LinearIntArgs& args;
  IntRows rows;
  std::size_t m, count;
  std::size_t n0, n1;
  const std::uint8_t* w;          // the weights as tiles read them, at the panel of n0
  std::size_t panel_bytes;        // from one panel to the next
  std::size_t to_second;          // bytes from a panel to the other panel of its pair
  std::size_t columns_to_second;  // the same distance in columns of the weight
  std::size_t next_rows;          // rows of x to prefetch
  std::size_t fetch_end;          // weights up to this column are read for these rows only, and are prefetched
};

// Returns -sum_of_x as two halves, so that one add_products_i16, which adds two 16-bit products, gives -zero *
// sum_of_x. With -sum_of_x = 128 * high + low the result is (128 * zero) * high + zero * low. Exact: no group is longer
// than kMaxGroup, so `high` fits 16 bits.
static_assert(kMaxGroup * 127 / 128 < 32768);
MORTISE_INLINE std::int32_t minus_halves(std::int32_t sum_of_x) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(-sum_of_x >> 7) << 16 |
                                   static_cast<std::uint32_t>(-sum_of_x & 127));
}
MORTISE_INLINE I32x16 zero_halves(const std::uint8_t* zeros) {
  const I32x16 zero = load_u8(zeros);
  return zero | shift_left<23>(zero);
}

// Writes the finished f32 sums of one row: one or two neighbouring panels, which give up to `columns` columns of y from
// n on. Has no state.
struct Neighbours {
  template <class Y, std::size_t panels>
  static MORTISE_INLINE void write(const LinearIntArgs& args, std::size_t m, std::size_t n, std::size_t columns,
                                   F32x16 (&y)[panels]) {
    Y* out = static_cast<Y*>(args.y) + m * args.y_stride + n;
    if (panels == 2 && columns == 2 * kLanes) {
      if (args.bias != nullptr) y[0] = y[0] + load(args.bias + n), y[1] = y[1] + load(args.bias + n + kLanes);
      write_pair(out, y[0], y[panels - 1]);
      return;
    }
    for (std::size_t j = 0; j < panels; ++j) {
      const std::size_t left = lanes_left(columns - j * kLanes);
      if (args.bias != nullptr) y[j] = y[j] + load_tail(args.bias + n + j * kLanes, left);
      write_tail(out + j * kLanes, y[j], left);
    }
  }
};

// Writes sixteen gated columns from a panel of gates and the panel that it gates. Has no state.
template <Activation act>
struct Gated {
  template <class Y>
  static MORTISE_INLINE void write(const LinearIntArgs& args, std::size_t m, std::size_t n, std::size_t,
                                   F32x16 (&y)[2]) {
    if (args.bias != nullptr) y[0] = y[0] + load(args.bias + n), y[1] = y[1] + load(args.bias + args.n / 2 + n);
    Y* out = static_cast<Y*>(args.y) + m * args.y_stride + n;
    mortise::cpu::write(out, rounded_activation<act, Y>(rounded<Y>(y[0])) * rounded<Y>(y[1]));
  }
};

// Calls f with the Gated of the activation.
template <class F>
MORTISE_INLINE void with_gate(Activation gate, F f) {
  switch (gate) {
    case Activation::kSilu:
      return f(Gated<Activation::kSilu>{});
    case Activation::kGelu:
      return f(Gated<Activation::kGelu>{});
    case Activation::kGeluTanh:
      return f(Gated<Activation::kGeluTanh>{});
    case Activation::kRelu:
      return f(Gated<Activation::kRelu>{});
  }
}

// Finishes sums over all of K, for weights with one group a row. Used by one thread. Invariant: zeros_ holds the zero
// points of the block's panels, of which there are 1 or 2.
template <class Y, bool gated>
class WriteRows {
 public:
  WriteRows() = default;
  // `panels` panels at column n. `minus`: minus_halves of each row of the block, or 0 if the weights have no zero point
  // left.
  WriteRows(const IntBlock& block, const std::int32_t* minus, std::size_t n, std::size_t panels,
            const std::int32_t* sums)
      : args_(&block.args), scales_of_x_(block.rows.scales + block.m), minus_(minus), sums_(sums), panels_(panels) {
    m_ = block.m, n_ = n, columns_ = minimum(block.n1 - n, panels * kLanes), second_ = n + block.columns_to_second;
    store(zeros_, zero_halves(args_->zeros + n));
    if (panels > 1) store(zeros_ + kLanes, zero_halves(args_->zeros + second_));
  }
  MORTISE_NOINLINE void rows(std::size_t i0, std::size_t i1) const {
    if constexpr (gated) {
      with_gate(args_->gate, [&](auto output) { write<2>(output, i0, i1); });
    } else {
      panels_ == 2 ? write<2>(Neighbours{}, i0, i1) : write<1>(Neighbours{}, i0, i1);
    }
  }

 private:
  template <std::size_t panels, class Output>
  MORTISE_INLINE void write(Output, std::size_t i0, std::size_t i1) const {
    F32x16 scale[panels];
    I32x16 zeros[panels];
    for (std::size_t j = 0; j < panels; ++j) {
      scale[j] = load(args_->scales + (j == 0 ? n_ : second_)), zeros[j] = load_i32(zeros_ + j * kLanes);
    }
    for (std::size_t i = i0; i < i1; ++i) {
      const F32x16 scale_of_x = broadcast(scales_of_x_[i]);
      F32x16 y[panels];
      for (std::size_t j = 0; j < panels; ++j) {
        const I32x16 sum = load_i32(sums_ + j * 2 * kTileSums + i * kLanes);
        const I32x16 dot = add_products_i16(sum, zeros[j], broadcast_i32(minus_[i]));
        // 0 + dot * scale in one rounding. A product that is not 0 is a normal number.
        y[j] = fma(to_float(dot), scale[j], zero()) * scale_of_x;
      }
      Output::template write<Y>(*args_, m_ + i, n_, columns_, y);
    }
  }

  const LinearIntArgs* args_;
  const float* scales_of_x_;
  const std::int32_t *minus_, *sums_;
  std::size_t panels_, m_, n_, columns_, second_;
  alignas(64) std::int32_t zeros_[2 * kLanes];
};

// Gates rows of finished f32 sums [32 rows][2 panels][16].
template <class Y>
MORTISE_NOINLINE void gate_rows(const LinearIntArgs& args, std::size_t m, std::size_t n, const float* acc,
                                std::size_t i0, std::size_t i1) {
  with_gate(args.gate, [&](auto output) {
    for (std::size_t i = i0; i < i1; ++i) {
      F32x16 y[2] = {load(acc + i * 2 * kLanes), load(acc + i * 2 * kLanes + kLanes)};
      output.template write<Y>(args, m + i, n, kLanes, y);
    }
  });
}

// Adds the sums of one or two groups to the f32 sums over groups. After the last group it writes y. Used by one thread.
// Invariant: unless g_ is 0, acc_ holds the sums over the groups before g_.
template <int bits, class Y, bool gated>
class AddGroups {
 public:
  AddGroups() = default;
  // sums [groups][2 panels][32 rows][16] of the groups from g on; acc [32 rows][2 panels][16] are the sums over groups.
  AddGroups(const IntBlock& block, std::size_t n, std::size_t panels, std::size_t g, std::size_t groups,
            const std::int32_t* sums, float* acc)
      : block_(&block), n_(n), panels_(panels), g_(g), groups_(groups), sums_(sums), acc_(acc) {}
  MORTISE_NOINLINE void rows(std::size_t i0, std::size_t i1) const {
    if (panels_ == 2) {
      groups_ == 2 ? add<2, 2>(i0, i1) : add<2, 1>(i0, i1);
    } else {
      groups_ == 2 ? add<1, 2>(i0, i1) : add<1, 1>(i0, i1);
    }
    const bool last = g_ + groups_ == block_->rows.groups;
    if (gated && last) gate_rows<Y>(block_->args, block_->m, n_, acc_, i0, i1);
  }

 private:
  template <std::size_t panels, std::size_t groups>
  MORTISE_INLINE void add(std::size_t i0, std::size_t i1) const {
    static_assert(groups <= kGroupsAtOnce);
    const IntRows& x = block_->rows;
    const bool first = g_ == 0, last = g_ + groups == x.groups;
    F32x16 scale[panels][groups];
    I32x16 zeros[panels][groups];
    for (std::size_t j = 0; j < panels; ++j) {
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t at = (n_ + j * block_->columns_to_second) * x.groups + (g_ + g) * kLanes;
        scale[j][g] = load(block_->args.scales + at);
        if constexpr (bits == 8) zeros[j][g] = zero_halves(block_->args.zeros + at);
      }
    }
    for (std::size_t i = i0; i < i1; ++i) {
      const std::size_t m = block_->m + i;
      F32x16 y[panels];
      for (std::size_t j = 0; j < panels; ++j) y[j] = first ? zero() : load(acc_ + (i * 2 + j) * kLanes);
      for (std::size_t g = 0; g < groups; ++g) {
        for (std::size_t j = 0; j < panels; ++j) {
          I32x16 dot = load_i32(sums_ + g * kPairSums + j * 2 * kTileSums + i * kLanes);
          if constexpr (bits == 8) {
            dot = add_products_i16(dot, zeros[j][g], broadcast_i32(minus_halves(x.sums[m * x.groups + g_ + g])));
          }
          y[j] = y[j] + to_float(dot) * scale[j][g];
        }
      }
      for (std::size_t j = 0; last && j < panels; ++j) y[j] = y[j] * broadcast(x.scales[m]);
      if (last && !gated) {
        Neighbours::write<Y>(block_->args, m, n_, minimum(block_->n1 - n_, panels * kLanes), y);
      } else {
        for (std::size_t j = 0; j < panels; ++j) store(acc_ + (i * 2 + j) * kLanes, y[j]);
      }
    }
  }

  const IntBlock* block_;
  std::size_t n_, panels_, g_, groups_;
  const std::int32_t* sums_;
  float* acc_;
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
