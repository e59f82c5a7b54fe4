// linear_block32 on AMX: 32 rows x 2 panels of int8 tiles that are as deep as a part. After the products of each part
// the core applies the scales of parts before it to their sums (linear_block32/sums.hpp). Columns are divided into
// chunks whose weights stay in the second-level cache while all rows pass. 4-bit weights are unpacked once per chunk.
// Few rows go to the VNNI kernels, since they would leave tiles empty.
#include "kernels/cpu/amx/beside.hpp"  // chunk_panels
#include "kernels/cpu/linear_block32/sums.hpp"
#include "kernels/cpu/linear_int/unpack.hpp"
#if defined(MORTISE_EMULATED_TILES)
namespace mortise::cpu::isa_portable {
extern const LinearBlock32Kernels kLinearBlock32Kernels;
}
namespace vectors = mortise::cpu::isa_portable;
#else
namespace mortise::cpu::isa_avx512_vnni {
extern const LinearBlock32Kernels kLinearBlock32Kernels;
}
namespace vectors = mortise::cpu::isa_avx512_vnni;
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Multiplies one part of up to 32 rows and two panels. Each tile of sums is stored, for the part before, right before
// it is used again: stored after its own product it would keep the AMX unit waiting (119 instead of 86 cycles a part).
template <int row_tiles, int panels>
MORTISE_INLINE void multiply_part(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w,
                                  std::size_t to_second, std::int32_t* sums_before) {
  tile_load_past_first_level<6>(w, kRowBytes);
  tile_load<4>(x, x_stride);
  tile_store<0>(sums_before, kRowBytes);
  tile_zero<0>();
  tile_multiply_i8_u8<0, 4, 6>();
  if constexpr (row_tiles > 1) {
    tile_load<5>(x + kTileRows * x_stride, x_stride);
    tile_store<2>(sums_before + kTileSums, kRowBytes);
    tile_zero<2>();
    tile_multiply_i8_u8<2, 5, 6>();
  }
  if constexpr (panels > 1) {
    tile_load_past_first_level<7>(w + to_second, kRowBytes);
    tile_store<1>(sums_before + 2 * kTileSums, kRowBytes);
    tile_zero<1>();
    tile_multiply_i8_u8<1, 4, 7>();
    if constexpr (row_tiles > 1) {
      tile_store<3>(sums_before + 3 * kTileSums, kRowBytes);
      tile_zero<3>();
      tile_multiply_i8_u8<3, 5, 7>();
    }
  }
}

// Prefetches the weights of a part of the next panels, if only these rows read them.
template <int panels>
MORTISE_INLINE void fetch_part(const Block32Tiles& t, std::size_t n, std::size_t k, std::size_t depth) {
  if (n + 2 * panels * kLanes > t.fetch_end) return;
  const std::size_t bits = static_cast<std::size_t>(t.args.format.bits), panel_bytes = t.panel_bytes * bits / 8;
  const std::uint8_t* const next = t.args.values + (n / kLanes + panels) * panel_bytes + k * kLanes * bits / 8;
  for (std::size_t line = 0; line < depth * kLanes * bits / 8; line += 64) {
    for (std::size_t j = 0; j < panels; ++j) __builtin_prefetch(next + j * panel_bytes + line, 0, 2);
  }
}

// The columns [n0, n1) of y, `panels` panels at a time. Parts go in batches. The sums of a batch are complete after the
// first part of the next batch, and are added until after the first part of the batch after that: one buffer is read
// while the other is written.
template <Block32Form form, int row_tiles, int panels>
void multiply_panels(const Block32Tiles& t, std::size_t n0, std::size_t n1) {
  constexpr std::size_t kDepth = form.halves ? kBlock32 / 2 : kBlock32;
  alignas(64) std::int32_t sums[2][kPartsAtOnce][kPairSums];
  AddParts<form> beside(t);
  typename AddParts<form>::Batch last{};
  std::int32_t* before = sums[1][kPartsAtOnce - 1];  // of the part before, where there is none: nobody reads them
  std::size_t parity = 0;
  const std::int8_t* const x = t.rows.x + t.m * t.rows.x_stride;
  for (std::size_t n = n0; n < n1; n += panels * kLanes) {
    const std::uint8_t* const w = t.w + (n - t.n0) / kLanes * t.panel_bytes;
    for (std::size_t p = 0; p < t.parts; p += kPartsAtOnce, parity ^= 1) {
      const std::size_t parts = minimum(kPartsAtOnce, t.parts - p);
      for (std::size_t q = 0; q < parts; ++q) {
        const std::size_t k = (p + q) * kDepth;
        fetch_part<panels>(t, n, k, kDepth);
        multiply_part<row_tiles, panels>(x + k, t.rows.x_stride, w + k * kLanes, t.panel_bytes, before);
        beside.step();
        before = sums[parity][q];
        if (q > 0) continue;
        beside.finish();
        if (last.parts > 0) beside.begin(last, parts);
      }
      last = {n, panels, p, parts, sums[parity][0]};
    }
  }
  store_sums<row_tiles, panels>(before);
  beside.finish();
  beside.begin(last, 1);
  beside.finish();
}

template <Block32Form form, int row_tiles>
void multiply_rows(const Block32Tiles& t) {
  configure(t.count, form.halves ? kBlock32 / 2 : kBlock32);
  const std::size_t pairs_end = t.n0 + (t.n1 - t.n0 + kLanes - 1) / kLanes / 2 * 2 * kLanes;
  if (pairs_end > t.n0) multiply_panels<form, row_tiles, 2>(t, t.n0, pairs_end);
  if (pairs_end < t.n1) multiply_panels<form, row_tiles, 1>(t, pairs_end, t.n1);
}

// The number of panels whose weights are read repeatedly. For 4-bit weights that are read once: the number unpacked at
// a time.
std::size_t panels_at_once(int bits, std::size_t panels, std::size_t panel_bytes, std::size_t rows) {
  const std::size_t most = bits == 4 ? kUnpackedBytes / panel_bytes / 2 * 2 : panels;
  if (bits == 4 && rows <= kPairRows) return minimum(most, 2);
  return minimum(most, chunk_panels(panels, panel_bytes));
}

template <Block32Form form>
void run_form(const LinearBlock32Args& args, const LinearRange& range, bool y_is_bf16) {
  const std::size_t depth = int_depth(args.k), panel_bytes = depth * kLanes, rows = range.m1 - range.m0;
  const std::size_t part = form.halves ? kBlock32 / 2 : kBlock32, group = minimum(args.format.group_size, args.k);
  const std::size_t panels = (range.n1 - range.n0 + kLanes - 1) / kLanes;
  const std::size_t chunk = panels_at_once(args.format.bits, panels, panel_bytes, rows) * kLanes;
  for (std::size_t n = range.n0; n < range.n1; n += chunk) {
    const std::size_t n1 = minimum(n + chunk, range.n1);
    const std::uint8_t* w = args.values + n * depth * static_cast<std::size_t>(args.format.bits) / 8;
    if (args.format.bits == 4) {
      // Panels lie one after the other, and the starts of the sums have the zero point.
      unpack(w, (n1 - n + kLanes - 1) / kLanes * depth, broadcast_i32(0), unpacked_weights);
      w = unpacked_weights;
    }
    for (std::size_t m = range.m0; m < range.m1; m += kPairRows) {
      const Block32Tiles tiles = {args,
                                  block32_rows(args),
                                  m,
                                  minimum(kPairRows, range.m1 - m),
                                  n,
                                  n1,
                                  w,
                                  panel_bytes,
                                  (args.k + part - 1) / part,
                                  (args.k + group - 1) / group,
                                  (group + part - 1) / part,
                                  y_is_bf16,
                                  rows <= kPairRows ? range.n1 : 0};
      tiles.count > kTileRows ? multiply_rows<form, 2>(tiles) : multiply_rows<form, 1>(tiles);
    }
  }
  tiles_release();
}

template <bool halves>
void run_tiles(const LinearBlock32Args& args, const LinearRange& range, bool y_is_bf16) {
  const bool starts = args.format.zero != 0;
  const auto run = args.format.has_minima
                       ? (starts ? run_form<{halves, true, true}> : run_form<{halves, false, true}>)
                       : (starts ? run_form<{halves, true, false}> : run_form<{halves, false, false}>);
  run(args, range, y_is_bf16);
}

// Whether the VNNI kernel takes the product. 4-bit weights also go there if two unpacked panels do not fit into the
// buffer.
bool is_for_vectors(const LinearBlock32Args& args) {
  if (args.format.bits == 4 && !can_unpack(args.k)) return true;
#if defined(MORTISE_EMULATED_TILES)
  return false;
#else
  return args.m <= (args.format.bits == 4 ? 5 : 3);
#endif
}

template <class Y>
void run(const LinearBlock32Args& args, const LinearRange& range) {
  constexpr bool kIsBf16 = sizeof(Y) == sizeof(Bf16);
  if (is_for_vectors(args)) {
    const LinearBlock32Kernels& kernels = vectors::kLinearBlock32Kernels;
    return kIsBf16 ? kernels.to_bf16(args, range) : kernels.to_f32(args, range);
  }
  args.format.group_size == kBlock32 / 2 ? run_tiles<true>(args, range, kIsBf16)
                                         : run_tiles<false>(args, range, kIsBf16);
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
