// linear_int on AMX: 32 rows x 2 panels of int8 tiles, over all of K or over a group at a time. Columns are divided
// into chunks whose weights stay in the second-level cache while all rows pass. 8-bit weights are loaded as tiles in
// place; 4-bit weights are unpacked once per chunk, for all rows. While the AMX unit multiplies, the core turns the
// sums before into y (linear_int/sums.hpp). Up to 16 rows take four panels at a time, straight from memory. Very few
// rows go to the VNNI kernels, since they would leave tiles empty.
#include "kernels/cpu/amx/beside.hpp"
#include "kernels/cpu/linear_int/linear_int.hpp"
#include "kernels/cpu/linear_int/rows.hpp"
#include "kernels/cpu/linear_int/sums.hpp"
#include "kernels/cpu/linear_int/unpack.hpp"
#if defined(MORTISE_EMULATED_TILES)  // tests run the blocking on machines without AMX
namespace mortise::cpu::isa_portable {
extern const LinearIntKernels kLinearIntKernels;
}
namespace vectors = mortise::cpu::isa_portable;
#else
namespace mortise::cpu::isa_avx512_vnni {
extern const LinearIntKernels kLinearIntKernels;
}
namespace vectors = mortise::cpu::isa_avx512_vnni;
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kFewPanels = 4;
// With fewer columns, prefetching the next rows exceeds what the caches can take.
constexpr std::size_t kFetchColumns = 128;
// Unpacks the panels of the columns [n0, n1), in order.
void unpack_chunk(const LinearIntArgs& args, std::size_t n0, std::size_t n1, std::uint8_t* out) {
  const std::size_t depth = int_depth(args.k), group = int_group(args.k, args.format.group_size);
  const std::size_t groups = int_groups(args.k, args.format.group_size);
  for (std::size_t n = n0; n < n1; n += kLanes, out += depth * kLanes) {
    const std::uint8_t* packed = args.values + n * depth / 2;
    const std::uint8_t* zeros = args.zeros + n * groups;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t k = g * group, end = minimum(k + group, depth);
      const I32x16 zero = mul_lo(load_u8(zeros + g * kLanes), broadcast_i32(0x01010101));
      unpack(packed + k * kLanes / 2, end - k, zero, out + k * kLanes);
    }
  }
}

// 8-bit weights are unsigned and in place, 4-bit weights have lost their zero point while they were unpacked.
template <int bits>
constexpr bool kIsSigned = bits == 4;

// Tiles 0-3 accumulate, tile 4 holds x, tiles 5-7 hold weights in turn.
void configure_few(std::size_t rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = static_cast<std::uint8_t>(t < 5 ? rows : kTileRows);
  }
  tiles_configure(config);
}

template <int bits, std::size_t panels>
MORTISE_INLINE void multiply_few_tile(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w,
                                      std::size_t to_next) {
  tile_load<4>(x, x_stride);
  tile_load<5>(w, kRowBytes);
  if constexpr (panels > 1) tile_load<6>(w + to_next, kRowBytes);
  if constexpr (panels > 2) tile_load<7>(w + 2 * to_next, kRowBytes);
  multiply_tiles<kIsSigned<bits>, 0, 4, 5>();
  if constexpr (panels > 3) tile_load<5>(w + 3 * to_next, kRowBytes);
  if constexpr (panels > 1) multiply_tiles<kIsSigned<bits>, 1, 4, 6>();
  if constexpr (panels > 2) multiply_tiles<kIsSigned<bits>, 2, 4, 7>();
  if constexpr (panels > 3) multiply_tiles<kIsSigned<bits>, 3, 4, 5>();
}

// Up to 16 rows times `panels` panels at column n of y, `to_next` bytes apart.
template <int bits, std::size_t panels, class Y, bool gated>
void multiply_few_panels(const IntBlock& b, const std::int32_t* minus, std::size_t n, std::size_t to_next) {
  alignas(64) std::int32_t sums[(panels + 1) / 2][kPairSums];
  const std::int8_t* x = b.rows.x + b.m * b.rows.x_stride;
  const std::uint8_t* w = b.w + (n - b.n0) / kLanes * b.panel_bytes;
  const std::size_t depth = int_depth(b.args.k);
  tile_zero<0>();
  if constexpr (panels > 1) tile_zero<1>();
  if constexpr (panels > 2) tile_zero<2>();
  if constexpr (panels > 3) tile_zero<3>();
  for (std::size_t k = 0; k < depth; k += kIntDepth) {
    multiply_few_tile<bits, panels>(x + k, b.rows.x_stride, w + k * kLanes, to_next);
  }
  tile_store<0>(sums[0], kRowBytes);
  if constexpr (panels > 1) tile_store<1>(sums[0] + 2 * kTileSums, kRowBytes);
  if constexpr (panels > 2) tile_store<2>(sums[1], kRowBytes);
  if constexpr (panels > 3) tile_store<3>(sums[1] + 2 * kTileSums, kRowBytes);
  for (std::size_t j = 0; j < panels; j += 2) {
    WriteRows<Y, gated>(b, minus, n + j * kLanes, minimum(panels - j, 2), sums[j / 2]).rows(0, b.count);
  }
}

template <int bits, class Y, bool gated>
void multiply_few(const IntBlock& b, const std::int32_t* minus) {
  configure_few(b.count);
  std::size_t n = b.n0;
  if constexpr (gated) {
    for (; n < b.n1; n += kLanes) multiply_few_panels<bits, 2, Y, true>(b, minus, n, b.to_second);
  } else {
    for (; n + (kFewPanels - 1) * kLanes < b.n1; n += kFewPanels * kLanes) {
      multiply_few_panels<bits, kFewPanels, Y, false>(b, minus, n, b.panel_bytes);
    }
    for (; n < b.n1; n += kLanes) multiply_few_panels<bits, 1, Y, false>(b, minus, n, b.panel_bytes);
  }
}

// Columns of y that come from a pair of panels.
template <bool gated>
constexpr std::size_t kPairColumns = gated ? kLanes : 2 * kLanes;

// Prefetches what follows, while the pair of panels at column n of y is multiplied.
template <int bits, bool gated, class Work>
void fetch_next(const IntBlock& b, std::size_t n, Beside<Work>& beside) {
  constexpr std::size_t kColumns = kPairColumns<gated>;
  const std::size_t depth = int_depth(b.args.k);
  if (b.next_rows > 0) {
    const std::size_t pairs = (b.n1 - b.n0 + kColumns - 1) / kColumns, pair = (n - b.n0) / kColumns;
    const std::size_t row_lines = depth / kIntDepth, lines = b.next_rows * row_lines;
    const std::int8_t* next = b.rows.x + (b.m + kPairRows) * b.rows.x_stride;
    beside.set_fetch(reinterpret_cast<const char*>(next), b.rows.x_stride, row_lines, lines * pair / pairs,
                     lines * (pair + 1) / pairs);
  } else if (n + 2 * kColumns <= b.fetch_end) {
    const std::size_t packed_bytes = depth * kLanes * bits / 8, lines = packed_bytes / 64;
    const std::uint8_t* next = b.args.values + (n + kColumns) / kLanes * packed_bytes;
    beside.set_fetch(reinterpret_cast<const char*>(next), b.columns_to_second / kLanes * packed_bytes, lines, 0,
                     2 * lines);
  } else {
    beside.set_no_fetch();
  }
}

// 17 to 32 rows times one or two panels over all of K, into sums.
template <int bits, int panels, class Work>
void multiply_pair(const IntBlock& b, const std::uint8_t* w, Beside<Work>& beside, std::int32_t* sums) {
  const std::int8_t* x = b.rows.x + b.m * b.rows.x_stride;
  const std::size_t depth = int_depth(b.args.k), x_stride = b.rows.x_stride, to_second = b.to_second;
  beside.begin(depth / kIntDepth, depth / kIntDepth);
  zero_sums<2, panels>();
  for (std::size_t k = 0; k < depth; k += kIntDepth) {
    multiply_tile<kIsSigned<bits>, 2, panels>(x + k, x_stride, w + k * kLanes, to_second);
    beside.step();
  }
  store_sums<2, panels>(sums);
  beside.finish();
}

template <int bits, class Y, bool gated>
void multiply_many(const IntBlock& b, const std::int32_t* minus) {
  alignas(64) std::int32_t sums[2][kPairSums];
  Beside<WriteRows<Y, gated>> beside;
  configure(b.count, kIntDepth);
  std::size_t parity = 0;
  for (std::size_t n = b.n0; n < b.n1; n += kPairColumns<gated>, parity ^= 1) {
    const std::uint8_t* w = b.w + (n - b.n0) / kLanes * b.panel_bytes;
    const bool two = gated || n + kLanes < b.n1;
    fetch_next<bits, gated>(b, n, beside);
    two ? multiply_pair<bits, 2>(b, w, beside, sums[parity]) : multiply_pair<bits, 1>(b, w, beside, sums[parity]);
    beside.set_work({b, minus, n, two ? 2u : 1u, sums[parity]}, b.count);
  }
  beside.finish();
}

// Two buffers for the sums of a few groups: one is read while the other is written.
using SumsOfGroups = std::int32_t[2][kGroupsAtOnce][kPairSums];

// One or two panels of weights in groups.
template <int bits, int row_tiles, int panels, class Work>
void multiply_groups(const IntBlock& b, std::size_t n, Beside<Work>& beside, SumsOfGroups& sums, std::size_t& parity,
                     float* acc) {
  const std::int8_t* x = b.rows.x + b.m * b.rows.x_stride;
  const std::uint8_t* w = b.w + (n - b.n0) / kLanes * b.panel_bytes;
  const std::size_t depth = int_depth(b.args.k), group = b.args.format.group_size, step = int_tile_depth(group);
  const std::size_t x_stride = b.rows.x_stride, to_second = b.to_second;
  for (std::size_t g = 0; g < b.rows.groups; g += kGroupsAtOnce, parity ^= 1) {
    const std::size_t groups = minimum(kGroupsAtOnce, b.rows.groups - g);
    const std::size_t batch_end = minimum((g + groups) * group, depth);
    beside.begin((batch_end - g * group) / step, depth / step);
    for (std::size_t i = 0; i < groups; ++i) {
      const std::size_t end = minimum((g + i + 1) * group, depth);
      zero_sums<row_tiles, panels>();
      for (std::size_t k = (g + i) * group; k < end; k += step) {
        multiply_tile<kIsSigned<bits>, row_tiles, panels>(x + k, x_stride, w + k * kLanes, to_second);
        beside.step();
      }
      store_sums<row_tiles, panels>(sums[parity][i]);
    }
    beside.finish();
    beside.set_work({b, n, panels, g, groups, sums[parity][0], acc}, b.count);
  }
}

template <int bits, int row_tiles, class Y, bool gated>
void multiply_grouped(const IntBlock& b) {
  alignas(64) SumsOfGroups sums;
  alignas(64) float acc[kPairSums];
  Beside<AddGroups<bits, Y, gated>> beside;
  configure(b.count, int_tile_depth(b.args.format.group_size));
  std::size_t parity = 0;
  for (std::size_t n = b.n0; n < b.n1; n += kPairColumns<gated>) {
    fetch_next<bits, gated>(b, n, beside);
    gated || n + kLanes < b.n1 ? multiply_groups<bits, row_tiles, 2>(b, n, beside, sums, parity, acc)
                               : multiply_groups<bits, row_tiles, 1>(b, n, beside, sums, parity, acc);
  }
  beside.finish();
}

template <int bits, class Y, bool gated>
void multiply_block(const IntBlock& b) {
  if (b.rows.groups != 1) {
    b.count > kTileRows ? multiply_grouped<bits, 2, Y, gated>(b) : multiply_grouped<bits, 1, Y, gated>(b);
    return;
  }
  std::int32_t minus[kPairRows];
  for (std::size_t i = 0; i < b.count; ++i) minus[i] = bits == 8 ? minus_halves(b.rows.sums[b.m + i]) : 0;
  b.count > kTileRows ? multiply_many<bits, Y, gated>(b, minus) : multiply_few<bits, Y, gated>(b, minus);
}

// The number of panels whose weights are read repeatedly. For 4-bit weights that are read once: the number unpacked at
// a time.
template <int bits>
std::size_t panels_at_once(std::size_t panels, std::size_t panel_bytes, std::size_t rows) {
  const std::size_t most = bits == 4 ? kUnpackedBytes / panel_bytes / 2 * 2 : panels;
  if (bits == 4 && rows <= kPairRows) return minimum(most, rows <= kTileRows ? kFewPanels : 2);
  return minimum(most, chunk_panels(panels, panel_bytes));
}

template <int bits, class Y, bool gated>
void run_tiles(const LinearIntArgs& args, const LinearRange& range) {
  constexpr std::size_t kPanels = gated ? 2 : 1;  // panels of the weight for sixteen columns of y
  const std::size_t panel_bytes = int_depth(args.k) * kLanes, rows = range.m1 - range.m0;
  const std::size_t panels = (range.n1 - range.n0 + kLanes - 1) / kLanes * kPanels;
  const std::size_t chunk = panels_at_once<bits>(panels, panel_bytes, rows) / kPanels * kLanes;
  const std::size_t columns_to_second = gated ? args.n / 2 : kLanes;
  for (std::size_t n = range.n0; n < range.n1; n += chunk) {
    const std::size_t n1 = minimum(n + chunk, range.n1);
    const std::uint8_t* w = args.values + n / kLanes * panel_bytes;
    std::size_t to_second = columns_to_second / kLanes * panel_bytes;
    if constexpr (bits == 4) {
      w = unpacked_weights;
      unpack_chunk(args, n, n1, unpacked_weights);
      if (gated) {
        to_second = (n1 - n) / kLanes * panel_bytes;
        unpack_chunk(args, columns_to_second + n, columns_to_second + n1, unpacked_weights + to_second);
      }
    }
    for (std::size_t m = range.m0; m < range.m1; m += kPairRows) {
      const std::size_t count = minimum(kPairRows, range.m1 - m);
      const std::size_t next = (n1 - n) * kPanels >= kFetchColumns ? minimum(kPairRows, range.m1 - m - count) : 0;
      const std::size_t fetch_end = rows <= kPairRows ? range.n1 : 0;
      multiply_block<bits, Y, gated>(
          {args, int_rows(args), m, count, n, n1, w, panel_bytes, to_second, columns_to_second, next, fetch_end});
    }
  }
  tiles_release();
}

// Whether the VNNI kernel takes the product: the vector unit keeps up with memory, and most of a tile would be empty.
// 4-bit weights also go there if two unpacked panels do not fit into the buffer.
bool is_for_vectors(const LinearIntArgs& args) {
  if (args.format.bits == 4 && !can_unpack(args.k)) return true;
#if defined(MORTISE_EMULATED_TILES)
  return false;
#else
  return args.m <= (args.format.bits == 4 ? 8 : 1);
#endif
}

template <class Y>
void run(const LinearIntArgs& args, const LinearRange& range) {
  if (is_for_vectors(args)) {
    const LinearIntKernels& kernels = vectors::kLinearIntKernels;
    return sizeof(Y) == sizeof(Bf16) ? kernels.to_bf16(args, range) : kernels.to_f32(args, range);
  }
  args.format.bits == 4 ? run_tiles<4, Y, false>(args, range) : run_tiles<8, Y, false>(args, range);
}

void run_gated(const LinearIntArgs& args, const LinearRange& range) {
  args.format.bits == 4 ? run_tiles<4, Bf16, true>(args, range) : run_tiles<8, Bf16, true>(args, range);
}

bool can_gate(const LinearIntArgs& args) {
  return args.m > kTileRows && args.n / 2 % kLanes == 0 && !is_for_vectors(args);
}

}  // namespace

extern const LinearIntKernels kLinearIntKernels;
constinit const LinearIntKernels kLinearIntKernels = {
    .scratch_bytes = IntRows::bytes,
    .prepare_bf16 = quantize_rows<Bf16>,
    .prepare_f32 = quantize_rows<float>,
    .to_bf16 = run<Bf16>,
    .to_f32 = run<float>,
    .can_gate = can_gate,
    .gated_to_bf16 = run_gated,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
