// linear of class cpu-bf16/1 on AMX. A tile of weights is 1 KiB of the packed weights, a tile of x is 16 rows of 64
// bytes; both are loaded in place.
// - Up to 16 rows: one tile of x times four panels. The panels are streams that the hardware prefetches.
// - More rows: two tiles of x (32 rows) times two panels, over all of K. Four tile loads feed four products, each with
//   its own accumulator. Columns are divided into chunks whose weights stay in the second-level cache. During the
//   products the core finishes the preceding pair of panels (round, gate, store) and prefetches: weights of the next
//   chunk, rows of x if there are many, and with up to 32 rows the weights of the next pair. f32 sums without bias are
//   stored from the tiles to y directly.
// Measured and slower: blocks along K (accumulator stores that miss the first-level cache stall the tile loads);
// prefetching y; 32 rows as 16 rows twice, each times four panels.
#include "kernels/cpu/amx/beside.hpp"
#include "kernels/cpu/linear/linear.hpp"
#include "kernels/cpu/rows/gate.hpp"
#include "kernels/cpu/vec/io.hpp"
#if defined(MORTISE_EMULATED_TILES)  // tests run the blocking on machines without AMX
#include "emulated_tiles.hpp"
#else
#include "kernels/cpu/amx/tiles.hpp"
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kDepthTile = 32;  // elements of K in a depth tile
constexpr std::size_t kTileRows = 16;
constexpr std::size_t kTileBytes = 1024;
constexpr std::size_t kRowBytes = 64;  // bytes in a row of a tile
constexpr std::size_t kFewPanels = 4;
// The weights of the next chunk are prefetched during the products of this chunk, so several chunks share the cache.
// With up to kFewBlocks blocks of 32 rows the prefetch takes about as long as the products: chunks are smaller then,
// and rows are not prefetched.
constexpr std::size_t kFewBlocks = 16, kChunksOfFew = 8, kChunksOfMany = 2;
// With fewer columns, prefetching the next rows exceeds what the caches can take.
constexpr std::size_t kFetchColumns = 128;
constexpr std::size_t kAccumulator = kTileRows * kLanes;  // floats

constexpr std::size_t minimum(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}
constexpr std::size_t depth_tiles_of(std::size_t k) {
  return (k + kDepthTile - 1) / kDepthTile;
}

// The tiles of up to 32 rows of x.
struct TilesOfX {
  const char* first;
  std::size_t row_stride;  // bytes between the rows of whole tiles
  const char* last;        // the tile that fills up K, rows kRowBytes apart; null if K is whole tiles
};

// The tiles of the rows [m, m + rows). If the last tile needs zero padding, it is built in `last`.
TilesOfX tiles_of_x(const LinearArgs& args, std::size_t m, std::size_t rows, Bf16 (&last)[2 * kTileRows * kDepthTile]) {
  const Bf16* x = static_cast<const Bf16*>(args.x) + m * args.x_stride;
  const std::size_t whole = args.k / kDepthTile * kDepthTile;
  const bool filled = whole < args.k;
  for (std::size_t i = 0; filled && i < rows; ++i) {
    for (std::size_t j = 0; j < kDepthTile; ++j) {
      last[i * kDepthTile + j] = whole + j < args.k ? x[i * args.x_stride + whole + j] : Bf16{0};
    }
  }
  return {reinterpret_cast<const char*>(x), args.x_stride * sizeof(Bf16),
          filled ? reinterpret_cast<const char*>(last) : nullptr};
}

// Writes rows [i0, i1) of a pair of panels from the accumulators to y. The panels are neighbours; the first begins at
// column n.
template <class Y>
struct PairRows {
  static constexpr std::size_t kColumns = 2 * kLanes;  // of y
  static std::size_t to_second(const LinearArgs& args) { return depth_tiles_of(args.k) * kTileBytes; }

  static MORTISE_INLINE void write(const LinearArgs& args, std::size_t m, std::size_t i0, std::size_t i1, std::size_t n,
                                   const float* first, const float* second) {
    const std::size_t count = lanes_left(args.n - n), more = args.n > n + kLanes ? lanes_left(args.n - n - kLanes) : 0;
    for (std::size_t i = i0; i < i1; ++i) {
      F32x16 y0 = load(first + i * kLanes), y1 = load(second + i * kLanes);
      if (args.bias != nullptr) {
        y0 = y0 + load_tail(args.bias + n, count);
        y1 = y1 + load_tail(args.bias + n + kLanes, more);
      }
      Y* y = static_cast<Y*>(args.y) + (m + i) * args.y_stride + n;
      if (more == kLanes) {
        mortise::cpu::write_pair(y, y0, y1);
      } else {
        write_tail(y, y0, count);
        write_tail(y + kLanes, y1, more);
      }
    }
  }
};

// The same for a panel of gates and the panel of the values that they gate. Column n of y comes from columns n and N /
// 2 + n of the weight.
template <class Y>
struct GatedRows {
  static constexpr std::size_t kColumns = kLanes;
  static std::size_t to_second(const LinearArgs& args) {
    return args.n / 2 / kLanes * depth_tiles_of(args.k) * kTileBytes;
  }

  template <Activation act>
  static void write_as(const LinearArgs& args, std::size_t m, std::size_t i0, std::size_t i1, std::size_t n,
                       const float* gates, const float* ups) {
    const bool biased = args.bias != nullptr;
    const F32x16 gate_bias = biased ? load(args.bias + n) : zero();
    const F32x16 up_bias = biased ? load(args.bias + args.n / 2 + n) : zero();
    for (std::size_t i = i0; i < i1; ++i) {
      F32x16 gate = load(gates + i * kLanes), up = load(ups + i * kLanes);
      if (biased) gate = gate + gate_bias, up = up + up_bias;
      Y* y = static_cast<Y*>(args.y) + (m + i) * args.y_stride + n;
      mortise::cpu::write(y, rounded_activation<act, Y>(rounded<Y>(gate)) * rounded<Y>(up));
    }
  }
  // noinline: keeps the loop over K small, which calls this between its products.
  [[gnu::noinline]] static void write(const LinearArgs& args, std::size_t m, std::size_t i0, std::size_t i1,
                                      std::size_t n, const float* gates, const float* ups) {
    switch (args.gate) {
      case Activation::kSilu:
        return write_as<Activation::kSilu>(args, m, i0, i1, n, gates, ups);
      case Activation::kGelu:
        return write_as<Activation::kGelu>(args, m, i0, i1, n, gates, ups);
      case Activation::kGeluTanh:
        return write_as<Activation::kGeluTanh>(args, m, i0, i1, n, gates, ups);
      case Activation::kRelu:
        return write_as<Activation::kRelu>(args, m, i0, i1, n, gates, ups);
    }
  }
};

template <class Y>
void write_rows(const LinearArgs& args, std::size_t m, std::size_t rows, std::size_t n, const float* acc) {
  const std::size_t count = lanes_left(args.n - n);
  const F32x16 bias = args.bias != nullptr ? load_tail(args.bias + n, count) : zero();
  for (std::size_t i = 0; i < rows; ++i) {
    F32x16 y = load(acc + i * kLanes);
    if (args.bias != nullptr) y = y + bias;
    write_tail(static_cast<Y*>(args.y) + (m + i) * args.y_stride + n, y, count);
  }
}

// Tiles 0-3 accumulate, tile 4 holds x, tiles 5-7 hold weights in turn.
void configure_few(std::size_t rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = static_cast<std::uint8_t>(t < 5 ? rows : kTileRows);
  }
  tiles_configure(config);
}

template <int panels>
MORTISE_INLINE void multiply_few_tile(const char* x, std::size_t row_stride, const char* w, std::size_t to_next) {
  tile_load<4>(x, row_stride);
  tile_load<5>(w, kRowBytes);
  if constexpr (panels > 1) tile_load<6>(w + to_next, kRowBytes);
  if constexpr (panels > 2) tile_load<7>(w + 2 * to_next, kRowBytes);
  tile_multiply_bf16<0, 4, 5>();
  if constexpr (panels > 3) tile_load<5>(w + 3 * to_next, kRowBytes);
  if constexpr (panels > 1) tile_multiply_bf16<1, 4, 6>();
  if constexpr (panels > 2) tile_multiply_bf16<2, 4, 7>();
  if constexpr (panels > 3) tile_multiply_bf16<3, 4, 5>();
}

// Multiplies `panels` panels, `to_next` bytes apart from w on, into acc.
template <int panels>
MORTISE_INLINE void accumulate_few(const LinearArgs& args, const TilesOfX& x, const char* w, std::size_t to_next,
                                   float (&acc)[panels][kAccumulator]) {
  const std::size_t tiles = depth_tiles_of(args.k), whole = x.last == nullptr ? tiles : tiles - 1;
  tile_zero<0>();
  if constexpr (panels > 1) tile_zero<1>();
  if constexpr (panels > 2) tile_zero<2>();
  if constexpr (panels > 3) tile_zero<3>();
  for (std::size_t t = 0; t < whole; ++t) {
    multiply_few_tile<panels>(x.first + t * kRowBytes, x.row_stride, w + t * kTileBytes, to_next);
  }
  if (whole < tiles) multiply_few_tile<panels>(x.last, kRowBytes, w + whole * kTileBytes, to_next);
  tile_store<0>(acc[0], kRowBytes);
  if constexpr (panels > 1) tile_store<1>(acc[1], kRowBytes);
  if constexpr (panels > 2) tile_store<2>(acc[2], kRowBytes);
  if constexpr (panels > 3) tile_store<3>(acc[3], kRowBytes);
}

template <int panels, class Y>
void multiply_few_panels(const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows, std::size_t n) {
  alignas(64) float acc[panels][kAccumulator];
  const std::size_t panel_bytes = depth_tiles_of(args.k) * kTileBytes;
  accumulate_few<panels>(args, x, static_cast<const char*>(args.w) + n / kLanes * panel_bytes, panel_bytes, acc);
  for (std::size_t j = 0; j < panels; ++j) write_rows<Y>(args, m, rows, n + j * kLanes, acc[j]);
}

// Up to 16 rows times the columns [n0, n1) of y.
template <class Y>
void multiply_few(PairRows<Y>, const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows,
                  std::size_t n0, std::size_t n1) {
  configure_few(rows);
  std::size_t n = n0;
  for (; n + (kFewPanels - 1) * kLanes < n1; n += kFewPanels * kLanes) {
    multiply_few_panels<kFewPanels, Y>(args, x, m, rows, n);
  }
  for (; n < n1; n += kLanes) multiply_few_panels<1, Y>(args, x, m, rows, n);
}

template <class Y>
void multiply_few(GatedRows<Y>, const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows,
                  std::size_t n0, std::size_t n1) {
  alignas(64) float acc[2][kAccumulator];
  configure_few(rows);
  for (std::size_t n = n0; n < n1; n += kLanes) {
    const char* w = static_cast<const char*>(args.w) + n / kLanes * depth_tiles_of(args.k) * kTileBytes;
    accumulate_few<2>(args, x, w, GatedRows<Y>::to_second(args), acc);
    GatedRows<Y>::write(args, m, 0, rows, n, acc[0], acc[1]);
  }
}

// Tiles 0-3 accumulate (row block, panel) = (0,0) (0,1) (1,0) (1,1). Tiles 4 and 5 hold x, tiles 6 and 7 weights.
void configure_many(std::size_t rows) {
  TileConfig config;
  const std::uint8_t low = kTileRows, high = static_cast<std::uint8_t>(rows - kTileRows);
  const std::uint8_t tile_rows[8] = {low, low, high, high, low, high, kTileRows, kTileRows};
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = tile_rows[t];
  }
  tiles_configure(config);
}

template <int panels>
MORTISE_INLINE void multiply_many_tile(const char* x, std::size_t row_stride, const char* w, std::size_t to_second) {
  tile_load_past_first_level<6>(w, kRowBytes);
  tile_load<4>(x, row_stride);
  tile_multiply_bf16<0, 4, 6>();
  tile_load<5>(x + kTileRows * row_stride, row_stride);
  tile_multiply_bf16<2, 5, 6>();
  if constexpr (panels > 1) {
    tile_load_past_first_level<7>(w + to_second, kRowBytes);
    tile_multiply_bf16<1, 4, 7>();
    tile_multiply_bf16<3, 5, 7>();
  }
}

// Whether y is the sums themselves if there is no bias.
template <class Rows>
constexpr bool kSumsAreY = false;
template <>
constexpr bool kSumsAreY<PairRows<float>> = true;

// Finishes a pair of panels (rounding, storing) during the products of the next pair. Sums that were stored to y
// directly only need their NaN made canonical.
template <class Rows>
struct WritePair {
  MORTISE_INLINE void rows(std::size_t i0, std::size_t i1) const {
    if constexpr (kSumsAreY<Rows>) {
      if (acc == nullptr) return write_nan(i0, i1);
    }
    Rows::write(*args, m, i0, i1, n, acc, acc + 2 * kAccumulator);
  }
  MORTISE_INLINE void write_nan(std::size_t i0, std::size_t i1) const {
    for (std::size_t i = i0; i < i1; ++i) {
      float* const y = static_cast<float*>(args->y) + (m + i) * args->y_stride + n;
      const F32x16 y0 = load(y), y1 = load(y + kLanes);
      if (any(is_nan(y0) | is_nan(y1))) mortise::cpu::write_pair(y, y0, y1);
    }
  }
  const LinearArgs* args;
  std::size_t m, n;
  const float* acc;  // [2 panels][32 rows][16]; null: the sums are in y
};

// Where the accumulators of 32 rows times two panels are stored.
struct PairSums {
  float* first;
  std::size_t row_stride, to_second;  // in floats; to_second: from the first panel's sums to the second's
};
PairSums in_buffer(float* acc) {  // [2 panels][32 rows][16]
  return {acc, kLanes, 2 * kAccumulator};
}
PairSums in_y(const LinearArgs& args, std::size_t m, std::size_t n) {
  return {static_cast<float*>(args.y) + m * args.y_stride + n, args.y_stride, kLanes};
}

// 17 to 32 rows times the one or two panels at column n of y.
template <int panels, class Rows>
void multiply_many(const LinearArgs& args, const TilesOfX& x, std::size_t n, Beside<WritePair<Rows>>& beside,
                   const PairSums& sums) {
  const std::size_t tiles = depth_tiles_of(args.k), to_second = Rows::to_second(args);
  const std::size_t whole = x.last == nullptr ? tiles : tiles - 1;
  const char* w = static_cast<const char*>(args.w) + n / kLanes * tiles * kTileBytes;
  beside.begin(tiles, tiles);
  tile_zero<0>(), tile_zero<2>();
  if constexpr (panels > 1) tile_zero<1>(), tile_zero<3>();
  for (std::size_t t = 0; t < whole; ++t) {
    multiply_many_tile<panels>(x.first + t * kRowBytes, x.row_stride, w + t * kTileBytes, to_second);
    beside.step();
  }
  if (whole < tiles) multiply_many_tile<panels>(x.last, kRowBytes, w + whole * kTileBytes, to_second);
  const std::size_t stride = sums.row_stride * sizeof(float), to_high = kTileRows * sums.row_stride;
  tile_store<0>(sums.first, stride), tile_store<2>(sums.first + to_high, stride);
  if constexpr (panels > 1) {
    tile_store<1>(sums.first + sums.to_second, stride), tile_store<3>(sums.first + sums.to_second + to_high, stride);
  }
  beside.finish();
}

// A last panel without a partner.
template <class Y>
void multiply_last(PairRows<Y>, const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows,
                   std::size_t n, Beside<WritePair<PairRows<Y>>>& beside, float* acc) {
  multiply_many<1>(args, x, n, beside, in_buffer(acc));
  write_rows<Y>(args, m, rows, n, acc);
}
template <class Y>
void multiply_last(GatedRows<Y>, const LinearArgs&, const TilesOfX&, std::size_t, std::size_t, std::size_t,
                   Beside<WritePair<GatedRows<Y>>>&, float*) {}  // gated panels always come in pairs

// Prefetches the pair of panels at column n of y.
template <class Rows>
void fetch_panels(const LinearArgs& args, std::size_t n, Beside<WritePair<Rows>>& beside) {
  const std::size_t panel_bytes = depth_tiles_of(args.k) * kTileBytes, lines = panel_bytes / kRowBytes;
  beside.set_fetch(static_cast<const char*>(args.w) + n / kLanes * panel_bytes, Rows::to_second(args), lines, 0,
                   2 * lines);
}

// Cache lines [begin, end) to prefetch. Rows have `row_lines` lines and are `stride` bytes apart.
struct Lines {
  const char* first;
  std::size_t stride, row_lines, begin, end;
};

// Data to prefetch while 32 rows are multiplied by a chunk of columns.
struct Next {
  Lines rows, weights;
};

// Prefetches the share that belongs to pair number `pair` of `pairs`. If both rows and weights are wanted, they
// alternate.
template <class Rows>
void fetch_next(const Next& next, std::size_t pair, std::size_t pairs, Beside<WritePair<Rows>>& beside) {
  const bool any_rows = next.rows.begin < next.rows.end, both = any_rows && next.weights.begin < next.weights.end;
  const bool weights = both ? pair % 2 == 1 : !any_rows;
  const Lines& lines = weights ? next.weights : next.rows;
  const std::size_t part = both ? pair / 2 : pair, parts = both ? (pairs + (weights ? 0 : 1)) / 2 : pairs;
  const std::size_t count = lines.end - lines.begin;
  beside.set_fetch(lines.first, lines.stride, lines.row_lines, lines.begin + count * part / parts,
                   lines.begin + count * (part + 1) / parts);
}

// 17 to 32 rows times the columns [n0, n1) of y. `fetch_weights`: the weights come from memory, so each pair of panels
// prefetches the next pair instead of `next`.
template <class Rows>
void multiply_rows(const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows, std::size_t n0,
                   std::size_t n1, const Next& next, bool fetch_weights) {
  alignas(64) float acc[2][4 * kAccumulator];
  configure_many(rows);
  // Columns of y. The two panels of a pair give more than kWhole.
  constexpr std::size_t kStep = Rows::kColumns, kWhole = kStep - kLanes;
  const std::size_t pairs = (n1 - n0 + kStep - 1) / kStep;
  Beside<WritePair<Rows>> beside;
  std::size_t n = n0, pair = 0;
  for (; n < n1; n += kStep, ++pair) {
    if (!fetch_weights) {
      fetch_next(next, pair, pairs, beside);
    } else if (n + 2 * kStep <= n1) {
      fetch_panels(args, n + kStep, beside);
    } else {
      beside.set_no_fetch();
    }
    if (n + kWhole >= n1) {
      multiply_last(Rows{}, args, x, m, rows, n, beside, acc[pair % 2]);
      beside.set_work({}, 0);
      continue;
    }
    // Where y is the sums themselves, the tiles are stored to y without a buffer.
    const bool to_y = kSumsAreY<Rows> && args.bias == nullptr && n + kStep <= args.n;
    multiply_many<2>(args, x, n, beside, to_y ? in_y(args, m, n) : in_buffer(acc[pair % 2]));
    beside.set_work({&args, m, n, to_y ? nullptr : acc[pair % 2]}, rows);
  }
  beside.finish();
}

template <class Rows>
constexpr std::size_t kPanelsFor = 2 * kLanes / Rows::kColumns;  // panels of the weight for sixteen columns of y

// The rows of x that follow, from row m on.
Lines lines_of_next_rows(const LinearArgs& args, const LinearRange& range, const TilesOfX& x, std::size_t m) {
  const std::size_t rows = minimum(range.m1 - m, 2 * kTileRows), row_lines = args.k * sizeof(Bf16) / kRowBytes;
  return {x.first + 2 * kTileRows * x.row_stride, x.row_stride, row_lines, 0, rows * row_lines};
}

// The weights of the next chunk, which begins at column n. Each of the `blocks` blocks of rows prefetches its share of
// them.
template <class Rows>
Lines lines_of_next_chunk(const LinearArgs& args, const LinearRange& range, std::size_t n, std::size_t chunk,
                          std::size_t block, std::size_t blocks) {
  const std::size_t n_end = minimum(n + chunk, range.n1 + range.ahead);
  if (n >= n_end) return {};
  const std::size_t panel_bytes = depth_tiles_of(args.k) * kTileBytes;
  const std::size_t panels = (n_end - n + kLanes - 1) / kLanes;
  const std::size_t row_lines = panels * (panel_bytes / kRowBytes), lines = kPanelsFor<Rows> * row_lines;
  return {static_cast<const char*>(args.w) + n / kLanes * panel_bytes, Rows::to_second(args), row_lines,
          lines * block / blocks, lines * (block + 1) / blocks};
}

template <class Rows>
void run_rows(const LinearArgs& args, const LinearRange& range) {
  alignas(64) Bf16 last[2 * kTileRows * kDepthTile];
  constexpr std::size_t kPanels = kPanelsFor<Rows>;
  const std::size_t panels = (range.n1 - range.n0 + kLanes - 1) / kLanes * kPanels;
  const std::size_t panel_bytes = depth_tiles_of(args.k) * kTileBytes;
  const std::size_t blocks = (range.m1 - range.m0 + 2 * kTileRows - 1) / (2 * kTileRows);
  const bool few = blocks <= kFewBlocks;
  const std::size_t at_once = !few ? kChunksOfMany : blocks > 1 ? kChunksOfFew : 1;
  const std::size_t chunk = chunk_panels(panels, at_once * panel_bytes) / kPanels * kLanes;
  for (std::size_t n = range.n0; n < range.n1; n += chunk) {
    const std::size_t n_end = minimum(n + chunk, range.n1);
    for (std::size_t m = range.m0; m < range.m1; m += 2 * kTileRows) {
      const std::size_t rows = minimum(2 * kTileRows, range.m1 - m);
      const TilesOfX x = tiles_of_x(args, m, rows, last);
      if (rows > kTileRows) {
        Next next = {};
        next.weights = lines_of_next_chunk<Rows>(args, range, n_end, chunk, (m - range.m0) / (2 * kTileRows), blocks);
        if (!few && (n_end - n) * kPanels >= kFetchColumns) next.rows = lines_of_next_rows(args, range, x, m + rows);
        multiply_rows<Rows>(args, x, m, rows, n, n_end, next, few && n == range.n0 && m == range.m0);
      } else {
        multiply_few(Rows{}, args, x, m, rows, n, n_end);
      }
    }
  }
  tiles_release();
}

// x is read in place.
std::size_t scratch_bytes(std::size_t, std::size_t) {
  return 0;
}
void prepare(const LinearArgs&, std::size_t, std::size_t) {}

}  // namespace

extern const LinearBf16Kernels kLinearBf16Kernels;
constinit const LinearBf16Kernels kLinearBf16Kernels = {
    .to_bf16 = {scratch_bytes, prepare, run_rows<PairRows<Bf16>>, run_rows<GatedRows<Bf16>>},
    .to_f32 = {scratch_bytes, prepare, run_rows<PairRows<float>>, nullptr},
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
