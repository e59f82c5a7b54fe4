// linear_int on AMX: 32 rows x 2 panels of int8 tiles. 8-bit weights are tiles as they lie; 4-bit ones are unpacked, a
// block of K at a time, for all rows of a chunk. Few rows go to the VNNI kernels, which have no tile to fill.
#include "kernels/cpu/linear_int.hpp"
#include "kernels/cpu/linear_int_rows.hpp"
#if defined(MORTISE_EMULATED_TILES)  // the tests check the blocking on machines without AMX
#include "emulated_tiles.hpp"
#else
#include "kernels/cpu/tiles.hpp"
namespace mortise::cpu::isa_avx512_vnni {
extern const LinearIntKernels kLinearIntKernels;
}
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTileRows = 16;
constexpr std::size_t kRowBytes = 64;     // of a tile of weights or sums
constexpr std::size_t kTileBytes = 1024;  // 16 columns x 64 k, a byte each
constexpr std::size_t kSums = kTileRows * kLanes;
constexpr std::size_t kPanels = 2;
constexpr std::size_t kPairRows = 2 * kTileRows;
constexpr std::size_t kChunkRows = 8 * kPairRows;
constexpr std::size_t kBlockDepth = 16 * kIntDepth;  // of K: 32 KiB of two panels

// Tiles 0-3 accumulate (row tile, panel) = (0,0) (0,1) (1,0) (1,1), 4 and 5 are x, 6 and 7 weights.
void configure(std::size_t depth) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    const bool is_x = t == 4 || t == 5;
    config.row_bytes[t] = static_cast<std::uint16_t>(is_x ? depth : kRowBytes);
    config.rows[t] = static_cast<std::uint8_t>(t < 6 ? kTileRows : depth / 4);
  }
  tiles_configure(config);
}

// 4-bit weights [octets][16 n][4 bytes] as bytes [quads][16 n][4], less the zero point of each n.
void unpack(const std::uint8_t* packed, const std::uint8_t* zeros, std::size_t depth, std::uint8_t* out) {
  const I32x16 nibble = broadcast_i32(0x0f0f0f0f), sign = broadcast_i32(static_cast<std::int32_t>(0x80808080u));
  const I32x16 zero = mul_lo(load_u8(zeros), broadcast_i32(0x01010101));
  // Bytes of 0 .. 15 under a set bit 7: no difference borrows from its neighbour. Bit 7 then says "not negative".
  const auto less_zero = [&](I32x16 quads) {
    const I32x16 raised = (quads | sign) - zero;
    return raised ^ sign;
  };
  for (std::size_t octet = 0; octet < depth / 8; ++octet) {
    const I32x16 raw = load_i32(reinterpret_cast<const std::int32_t*>(packed + octet * 64));
    auto* quads = reinterpret_cast<std::int32_t*>(out + octet * 128);
    store(quads, less_zero(raw & nibble));
    store(quads + kLanes, less_zero(shift_right<4>(raw) & nibble));
  }
}

// c += a times weights: 8 bits unsigned as they lie, 4 bits signed, unpacked.
template <int bits, int c, int a, int b>
MORTISE_INLINE void multiply_tiles() {
  if constexpr (bits == 8) {
    tile_multiply_i8_u8<c, a, b>();
  } else {
    tile_multiply_i8_i8<c, a, b>();
  }
}

// sums [row tiles][panels][16][16] = or += x times w over `depth` k, `step` of them a tile.
template <int bits, int row_tiles, int panels>
void multiply(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w, std::size_t w_stride,
              std::size_t depth, std::size_t step, bool first, std::int32_t* sums) {
  if (first) {
    tile_zero<0>();
    if constexpr (panels > 1) tile_zero<1>();
    if constexpr (row_tiles > 1) tile_zero<2>();
    if constexpr (row_tiles > 1 && panels > 1) tile_zero<3>();
  } else {
    tile_load<0>(sums, kRowBytes);
    if constexpr (panels > 1) tile_load<1>(sums + kSums, kRowBytes);
    if constexpr (row_tiles > 1) tile_load<2>(sums + 2 * kSums, kRowBytes);
    if constexpr (row_tiles > 1 && panels > 1) tile_load<3>(sums + 3 * kSums, kRowBytes);
  }
  for (std::size_t k = 0; k < depth; k += step) {
    tile_load<4>(x + k, x_stride);
    tile_load<6>(w + k * kLanes, kRowBytes);
    multiply_tiles<bits, 0, 4, 6>();
    if constexpr (panels > 1) {
      tile_load<7>(w + w_stride + k * kLanes, kRowBytes);
      multiply_tiles<bits, 1, 4, 7>();
    }
    if constexpr (row_tiles > 1) {
      tile_load<5>(x + kTileRows * x_stride + k, x_stride);
      multiply_tiles<bits, 2, 5, 6>();
      if constexpr (panels > 1) multiply_tiles<bits, 3, 5, 7>();
    }
  }
  tile_store<0>(sums, kRowBytes);
  if constexpr (panels > 1) tile_store<1>(sums + kSums, kRowBytes);
  if constexpr (row_tiles > 1) tile_store<2>(sums + 2 * kSums, kRowBytes);
  if constexpr (row_tiles > 1 && panels > 1) tile_store<3>(sums + 3 * kSums, kRowBytes);
}

// A chunk of rows and one or two panels.
struct Chunk {
  const LinearIntArgs& args;
  IntRows rows;
  std::size_t m0, count, column, panels;
  std::int32_t* sums;  // [pairs of row tiles][2][2][16][16]
  float* acc;          // [count][2][16]
};

// acc += f32(sums - zero * sum of x) * scale for `rows` rows from `row` on, group g; 4 bits have no zero point left.
template <int bits>
void add_group(const Chunk& c, std::size_t row, std::size_t rows, std::size_t g) {
  const std::int32_t* sums = c.sums + row / kTileRows * kPanels * kSums;
  for (std::size_t j = 0; j < c.panels; ++j) {
    const std::size_t at = ((c.column / kLanes + j) * c.rows.groups + g) * kLanes;
    const F32x16 scale = load(c.args.scales + at);
    const I32x16 zero = load_u8(c.args.zeros + at);
    for (std::size_t i = 0; i < rows; ++i) {
      I32x16 dot = load_i32(sums + (i / kTileRows * kPanels + j) * kSums + i % kTileRows * kLanes);
      if constexpr (bits == 8) {
        dot = dot - mul_lo(zero, broadcast_i32(c.rows.sums[(c.m0 + row + i) * c.rows.groups + g]));
      }
      float* acc = c.acc + ((row + i) * kPanels + j) * kLanes;
      store(acc, load(acc) + to_float(dot) * scale);
    }
  }
}

// y of `rows` rows from `row` on, where a row of weights is one group: add_group and finish in one pass.
template <int bits, class Y>
void write_only_group(const Chunk& c, std::size_t row, std::size_t rows) {
  const std::int32_t* sums = c.sums + row / kTileRows * kPanels * kSums;
  F32x16 scale[kPanels], bias[kPanels];
  I32x16 zero_point[kPanels];
  std::size_t count[kPanels] = {};
  for (std::size_t j = 0; j < c.panels; ++j) {
    const std::size_t n = c.column + j * kLanes;
    count[j] = lanes_left(c.args.n - n);
    scale[j] = load(c.args.scales + n);
    zero_point[j] = load_u8(c.args.zeros + n);
    bias[j] = c.args.bias != nullptr ? load_tail(c.args.bias + n, count[j]) : zero();
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t m = c.m0 + row + i;
    const I32x16 sum_of_x = broadcast_i32(c.rows.sums[m]);
    const F32x16 scale_of_x = broadcast(c.rows.scales[m]);
    F32x16 y[kPanels];
    for (std::size_t j = 0; j < c.panels; ++j) {
      I32x16 dot = load_i32(sums + (i / kTileRows * kPanels + j) * kSums + i % kTileRows * kLanes);
      if constexpr (bits == 8) dot = dot - mul_lo(zero_point[j], sum_of_x);
      y[j] = (zero() + to_float(dot) * scale[j]) * scale_of_x;
      if (c.args.bias != nullptr) y[j] = y[j] + bias[j];
    }
    Y* out = static_cast<Y*>(c.args.y) + m * c.args.y_stride + c.column;
    if (count[kPanels - 1] == kLanes) {
      write_pair(out, y[0], y[1]);
    } else {
      for (std::size_t j = 0; j < c.panels; ++j) write_tail(out + j * kLanes, y[j], count[j]);
    }
  }
}

// One block of K for all rows of the chunk, `last` when it ends its group.
template <int bits, class Y>
void multiply_block(const Chunk& c, const std::uint8_t* w, std::size_t w_stride, std::size_t k, std::size_t depth,
                    std::size_t step, std::size_t g, bool first, bool last) {
  for (std::size_t row = 0; row < c.count; row += kPairRows) {
    const std::size_t rows = minimum(kPairRows, c.count - row);
    const std::int8_t* x = c.rows.x + (c.m0 + row) * c.rows.x_stride + k;
    std::int32_t* sums = c.sums + row / kTileRows * kPanels * kSums;
    if (rows > kTileRows) {
      c.panels > 1 ? multiply<bits, 2, 2>(x, c.rows.x_stride, w, w_stride, depth, step, first, sums)
                   : multiply<bits, 2, 1>(x, c.rows.x_stride, w, w_stride, depth, step, first, sums);
    } else {
      c.panels > 1 ? multiply<bits, 1, 2>(x, c.rows.x_stride, w, w_stride, depth, step, first, sums)
                   : multiply<bits, 1, 1>(x, c.rows.x_stride, w, w_stride, depth, step, first, sums);
    }
    if (last) c.rows.groups == 1 ? write_only_group<bits, Y>(c, row, rows) : add_group<bits>(c, row, rows, g);
  }
}

template <class Y>
void finish(const Chunk& c) {
  for (std::size_t j = 0; j < c.panels; ++j) {
    const std::size_t n = c.column + j * kLanes;
    const std::size_t count = lanes_left(c.args.n - n);
    const F32x16 bias = c.args.bias != nullptr ? load_tail(c.args.bias + n, count) : zero();
    for (std::size_t i = 0; i < c.count; ++i) {
      F32x16 y = load(c.acc + (i * kPanels + j) * kLanes) * broadcast(c.rows.scales[c.m0 + i]);
      if (c.args.bias != nullptr) y = y + bias;
      write_tail(static_cast<Y*>(c.args.y) + (c.m0 + i) * c.args.y_stride + n, y, count);
    }
  }
}

template <int bits, class Y>
void multiply_chunk(const Chunk& c) {
  alignas(64) std::uint8_t unpacked[bits == 4 ? kPanels * kBlockDepth * kLanes : 64];
  const std::size_t depth = int_depth(c.args.k), group = int_group(c.args.k, c.args.format.group_size);
  const std::size_t step = minimum(group, kIntDepth);
  const std::size_t panel_bytes = depth * kLanes * bits / 8;
  const std::uint8_t* w = c.args.values + c.column / kLanes * panel_bytes;
  if (c.rows.groups != 1) std::memset(c.acc, 0, c.count * kPanels * kLanes * sizeof(float));
  for (std::size_t g = 0; g < c.rows.groups; ++g) {
    const std::size_t begin = g * group, end = minimum(begin + group, depth);
    for (std::size_t k = begin; k < end; k += kBlockDepth) {
      const std::size_t block = minimum(kBlockDepth, end - k);
      const std::uint8_t* first_w = w + k * kLanes * bits / 8;
      std::size_t stride = panel_bytes;
      if constexpr (bits == 4) {
        stride = block * kLanes;
        for (std::size_t j = 0; j < c.panels; ++j) {
          const std::uint8_t* zeros = c.args.zeros + ((c.column / kLanes + j) * c.rows.groups + g) * kLanes;
          unpack(first_w + j * panel_bytes, zeros, block, unpacked + j * stride);
        }
        first_w = unpacked;
      }
      multiply_block<bits, Y>(c, first_w, stride, k, block, step, g, k == begin, k + block == end);
    }
  }
  if (c.rows.groups != 1) finish<Y>(c);
}

template <int bits, class Y>
void run_tiles(const LinearIntArgs& args, const LinearRange& range) {
  alignas(64) std::int32_t sums[kChunkRows * kPanels * kLanes];
  alignas(64) float acc[kChunkRows * kPanels * kLanes];
  configure(minimum(int_group(args.k, args.format.group_size), kIntDepth));
  for (std::size_t m = range.m0; m < range.m1; m += kChunkRows) {
    for (std::size_t n = range.n0; n < range.n1; n += kPanels * kLanes) {
      const std::size_t panels = n + kLanes < range.n1 ? kPanels : 1;
      multiply_chunk<bits, Y>({args, int_rows(args), m, minimum(kChunkRows, range.m1 - m), n, panels, sums, acc});
    }
  }
  tiles_release();
}

template <class Y>
void run(const LinearIntArgs& args, const LinearRange& range) {
#if !defined(MORTISE_EMULATED_TILES)
  // Where the vector unit keeps up with the memory, and most of a tile would be empty; 4 bits have no tile as they lie.
  const std::size_t few_rows = args.format.bits == 4 ? 8 : 1;
  if (args.m <= few_rows) {
    const LinearIntKernels& few = isa_avx512_vnni::kLinearIntKernels;
    return sizeof(Y) == sizeof(Bf16) ? few.to_bf16(args, range) : few.to_f32(args, range);
  }
#endif
  args.format.bits == 4 ? run_tiles<4, Y>(args, range) : run_tiles<8, Y>(args, range);
}

}  // namespace

extern const LinearIntKernels kLinearIntKernels;
constinit const LinearIntKernels kLinearIntKernels = {
    .scratch_bytes = IntRows::bytes,
    .prepare_bf16 = quantise_rows<Bf16>,
    .prepare_f32 = quantise_rows<float>,
    .to_bf16 = run<Bf16>,
    .to_f32 = run<float>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
