// linear of class cpu-bf16/1 on AMX. A tile of weights is 1 KiB of the packed order as it lies, a tile of x 16 rows of
// 64 bytes of x as it lies.
// - Up to 16 rows: one tile of x against four panels, which come from memory in streams that the hardware reads ahead.
// - More: 32 rows x 2 panels, four accumulators for four loads, all of K at once; columns in chunks whose weights stay
// in
//   the second-level cache. Meanwhile the rows of x that come next are asked for, or, if there are none, weights.
// What was measured and lost: K in blocks (stores of accumulators that miss the first-level cache stall the tile
// loads); asking for weights of other rows to come, or for y; 32 rows as twice 16, each against four panels.
#include "kernels/cpu/io.hpp"
#include "kernels/cpu/linear.hpp"
#if defined(MORTISE_EMULATED_TILES)  // the tests check the blocking on machines without AMX
#include "emulated_tiles.hpp"
#else
#include "kernels/cpu/tiles.hpp"
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTile = 32;  // depth of a tile of K
constexpr std::size_t kTileRows = 16;
constexpr std::size_t kTileBytes = 1024;
constexpr std::size_t kRowBytes = 64;  // of a tile
constexpr std::size_t kMinChunkPanels = 4;
constexpr std::size_t kFewPanels = 4;
constexpr std::size_t kFetchColumns = 128;  // with fewer, asking for the next rows is more than the caches can take
constexpr std::size_t kAccumulator = kTileRows * kLanes;  // floats

constexpr std::size_t minimum(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}
constexpr std::size_t tiles_of(std::size_t k) {
  return (k + kTile - 1) / kTile;
}

// Where the tiles of up to 32 rows of x lie.
struct TilesOfX {
  const char* first;
  std::size_t row_stride;  // bytes
  const char* last;        // the tile that fills up K, rows kRowBytes apart; null if K is whole tiles
};

// The tiles of the rows [m, m + rows); the last one, if it must be filled up with zeros, is made in `last`.
TilesOfX tiles_of_x(const LinearArgs& args, std::size_t m, std::size_t rows, Bf16 (&last)[2 * kTileRows * kTile]) {
  const Bf16* x = static_cast<const Bf16*>(args.x) + m * args.x_stride;
  const std::size_t whole = args.k / kTile * kTile;
  const bool filled = whole < args.k;
  for (std::size_t i = 0; filled && i < rows; ++i) {
    for (std::size_t j = 0; j < kTile; ++j) {
      last[i * kTile + j] = whole + j < args.k ? x[i * args.x_stride + whole + j] : Bf16{0};
    }
  }
  return {reinterpret_cast<const char*>(x), args.x_stride * sizeof(Bf16),
          filled ? reinterpret_cast<const char*>(last) : nullptr};
}

// Rows [i0, i1) of two neighbouring panels' accumulators, the first at column n.
template <class Y>
MORTISE_INLINE void write_pair_rows(const LinearArgs& args, std::size_t m, std::size_t i0, std::size_t i1,
                                    std::size_t n, const float* first, const float* second) {
  const std::size_t count = lanes_left(args.n - n), more = args.n > n + kLanes ? lanes_left(args.n - n - kLanes) : 0;
  for (std::size_t i = i0; i < i1; ++i) {
    F32x16 y0 = load(first + i * kLanes), y1 = load(second + i * kLanes);
    if (args.bias != nullptr) {
      y0 = y0 + load_tail(args.bias + n, count);
      y1 = y1 + load_tail(args.bias + n + kLanes, more);
    }
    Y* y = static_cast<Y*>(args.y) + (m + i) * args.y_stride + n;
    if (more == kLanes) {
      write_pair(y, y0, y1);
    } else {
      write_tail(y, y0, count);
      write_tail(y + kLanes, y1, more);
    }
  }
}

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

// Tiles 0-3 accumulate, 4 is x, 5-7 take weights in turn.
void configure_few(std::size_t rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = static_cast<std::uint8_t>(t < 5 ? rows : kTileRows);
  }
  tiles_configure(config);
}

template <int panels>
MORTISE_INLINE void multiply_few_tile(const char* x, std::size_t row_stride, const char* w, std::size_t panel_bytes) {
  tile_load<4>(x, row_stride);
  tile_load<5>(w, kRowBytes);
  if constexpr (panels > 1) tile_load<6>(w + panel_bytes, kRowBytes);
  if constexpr (panels > 2) tile_load<7>(w + 2 * panel_bytes, kRowBytes);
  tile_multiply_bf16<0, 4, 5>();
  if constexpr (panels > 3) tile_load<5>(w + 3 * panel_bytes, kRowBytes);
  if constexpr (panels > 1) tile_multiply_bf16<1, 4, 6>();
  if constexpr (panels > 2) tile_multiply_bf16<2, 4, 7>();
  if constexpr (panels > 3) tile_multiply_bf16<3, 4, 5>();
}

template <int panels, class Y>
void multiply_few_panels(const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows, std::size_t n) {
  alignas(64) float acc[panels][kAccumulator];
  const std::size_t tiles = tiles_of(args.k), panel_bytes = tiles * kTileBytes;
  const std::size_t whole = x.last == nullptr ? tiles : tiles - 1;
  const char* w = static_cast<const char*>(args.w) + n / kLanes * panel_bytes;
  tile_zero<0>();
  if constexpr (panels > 1) tile_zero<1>();
  if constexpr (panels > 2) tile_zero<2>();
  if constexpr (panels > 3) tile_zero<3>();
  for (std::size_t t = 0; t < whole; ++t) {
    multiply_few_tile<panels>(x.first + t * kRowBytes, x.row_stride, w + t * kTileBytes, panel_bytes);
  }
  if (whole < tiles) multiply_few_tile<panels>(x.last, kRowBytes, w + whole * kTileBytes, panel_bytes);
  tile_store<0>(acc[0], kRowBytes);
  if constexpr (panels > 1) tile_store<1>(acc[1], kRowBytes);
  if constexpr (panels > 2) tile_store<2>(acc[2], kRowBytes);
  if constexpr (panels > 3) tile_store<3>(acc[3], kRowBytes);
  for (std::size_t j = 0; j < panels; ++j) write_rows<Y>(args, m, rows, n + j * kLanes, acc[j]);
}

// Up to 16 rows, the columns [n0, n1).
template <class Y>
void multiply_few(const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows, std::size_t n0,
                  std::size_t n1) {
  configure_few(rows);
  std::size_t n = n0;
  for (; n + (kFewPanels - 1) * kLanes < n1; n += kFewPanels * kLanes) {
    multiply_few_panels<kFewPanels, Y>(args, x, m, rows, n);
  }
  for (; n < n1; n += kLanes) multiply_few_panels<1, Y>(args, x, m, rows, n);
}

// Tiles 0-3 accumulate (row block, panel) = (0,0) (0,1) (1,0) (1,1), 4 and 5 are x, 6 and 7 weights.
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
MORTISE_INLINE void multiply_many_tile(const char* x, std::size_t row_stride, const char* w, std::size_t panel_bytes) {
  tile_load_past_first_level<6>(w, kRowBytes);
  tile_load<4>(x, row_stride);
  tile_multiply_bf16<0, 4, 6>();
  tile_load<5>(x + kTileRows * row_stride, row_stride);
  tile_multiply_bf16<2, 5, 6>();
  if constexpr (panels > 1) {
    tile_load_past_first_level<7>(w + panel_bytes, kRowBytes);
    tile_multiply_bf16<1, 4, 7>();
    tile_multiply_bf16<3, 5, 7>();
  }
}

// What the rest of the core does while the matrix unit multiplies, a little after every tile: it rounds and stores the
// rows of the pair of panels before, and asks for what comes next.
template <class Y>
class Beside {
 public:
  // acc [2 panels][32 rows][16] of the rows [m, m + rows) and the panels at n, complete; or null.
  void write(const LinearArgs& args, std::size_t m, std::size_t rows, std::size_t n, const float* acc) {
    args_ = &args, m_ = m, n_ = n, acc_ = acc;
    row_ = 0, end_row_ = acc == nullptr ? 0 : rows;
  }
  // Lines [line, end) of rows that are `lines` long, from `first` on.
  void fetch(const char* first, std::size_t stride, std::size_t lines, std::size_t line, std::size_t end) {
    lines_ = lines, to_next_row_ = stride - lines * kRowBytes;
    to_fetch_ = end - line;
    at_ = to_fetch_ == 0 ? first : first + line / lines * stride + line % lines * kRowBytes;
    left_in_row_ = to_fetch_ == 0 ? 0 : lines - line % lines;
  }
  // All is to be done within so many steps.
  void begin(std::size_t steps) {
    rows_a_step_ = steps == 0 ? 0 : (end_row_ + steps - 1) / steps;
    lines_a_step_ = steps == 0 ? 0 : (to_fetch_ + steps - 1) / steps;
  }
  MORTISE_INLINE void step() {
    write_rows_until(minimum(row_ + rows_a_step_, end_row_));
    std::size_t count = minimum(lines_a_step_, to_fetch_);
    for (to_fetch_ -= count; count > 0; --count) {
      __builtin_prefetch(at_, 0, 2);
      at_ += kRowBytes;
      if (--left_in_row_ == 0) at_ += to_next_row_, left_in_row_ = lines_;
    }
  }
  void finish() { write_rows_until(end_row_); }

 private:
  MORTISE_INLINE void write_rows_until(std::size_t end) {
    if (row_ < end) write_pair_rows<Y>(*args_, m_, row_, end, n_, acc_, acc_ + 2 * kAccumulator);
    row_ = end;
  }

  const LinearArgs* args_ = nullptr;
  std::size_t m_ = 0, n_ = 0, row_ = 0, end_row_ = 0, rows_a_step_ = 0;
  const float* acc_ = nullptr;
  const char* at_ = nullptr;
  std::size_t to_next_row_ = 0, lines_ = 0, left_in_row_ = 0, to_fetch_ = 0, lines_a_step_ = 0;
};

// 17 to 32 rows and the one or two panels at column n into acc.
template <int panels, class Y>
void multiply_many(const LinearArgs& args, const TilesOfX& x, std::size_t n, Beside<Y>& beside, float* acc) {
  const std::size_t tiles = tiles_of(args.k), panel_bytes = tiles * kTileBytes;
  const std::size_t whole = x.last == nullptr ? tiles : tiles - 1;
  const char* w = static_cast<const char*>(args.w) + n / kLanes * panel_bytes;
  beside.begin(tiles);
  tile_zero<0>(), tile_zero<2>();
  if constexpr (panels > 1) tile_zero<1>(), tile_zero<3>();
  for (std::size_t t = 0; t < whole; ++t) {
    multiply_many_tile<panels>(x.first + t * kRowBytes, x.row_stride, w + t * kTileBytes, panel_bytes);
    beside.step();
  }
  if (whole < tiles) multiply_many_tile<panels>(x.last, kRowBytes, w + whole * kTileBytes, panel_bytes);
  tile_store<0>(acc, kRowBytes), tile_store<2>(acc + kAccumulator, kRowBytes);
  if constexpr (panels > 1) {
    tile_store<1>(acc + 2 * kAccumulator, kRowBytes), tile_store<3>(acc + 3 * kAccumulator, kRowBytes);
  }
  beside.finish();
}

// 17 to 32 rows, the columns [n0, n1). `next_rows`: that many of x will be wanted next; where there are none, each pair
// of panels is read this once, from memory, and asks for the one after it.
template <class Y>
void multiply_rows(const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows, std::size_t n0,
                   std::size_t n1, std::size_t next_rows, bool fetch_weights) {
  alignas(64) float acc[2][4 * kAccumulator];
  configure_many(rows);
  const std::size_t panel_bytes = tiles_of(args.k) * kTileBytes;
  const std::size_t row_lines = args.k * sizeof(Bf16) / kRowBytes;
  const std::size_t pairs = (n1 - n0 + 2 * kLanes - 1) / (2 * kLanes), lines = next_rows * row_lines;
  const char* const next_x = x.first + 2 * kTileRows * x.row_stride;
  Beside<Y> beside;
  std::size_t n = n0, pair = 0;
  for (; n < n1; n += 2 * kLanes, ++pair) {
    if (next_rows > 0) {
      beside.fetch(next_x, x.row_stride, row_lines, lines * pair / pairs, lines * (pair + 1) / pairs);
    } else if (fetch_weights && n + 4 * kLanes <= n1) {
      const char* next_pair = static_cast<const char*>(args.w) + (n / kLanes + 2) * panel_bytes;
      beside.fetch(next_pair, 2 * panel_bytes, 2 * panel_bytes / kRowBytes, 0, 2 * panel_bytes / kRowBytes);
    } else {
      beside.fetch(nullptr, 0, 0, 0, 0);
    }
    if (n + kLanes < n1) {
      multiply_many<2, Y>(args, x, n, beside, acc[pair % 2]);
      beside.write(args, m, rows, n, acc[pair % 2]);
    } else {
      multiply_many<1, Y>(args, x, n, beside, acc[pair % 2]);
      beside.write(args, m, rows, n, nullptr);
      write_rows<Y>(args, m, rows, n, acc[pair % 2]);
    }
  }
  beside.finish();
}

// Panels whose weights stay in the cache while all rows pass: chunks as equal as can be, of whole pairs.
std::size_t chunk_panels(std::size_t panels, std::size_t k) {
  const std::size_t panel_bytes = tiles_of(k) * kTileBytes;
  std::size_t most = panel_bytes == 0 ? panels : kLinearChunkBytes / panel_bytes;
  if (most < kMinChunkPanels) most = kMinChunkPanels;
  const std::size_t chunks = (panels + most - 1) / most;
  return chunks <= 1 ? panels : ((panels + chunks - 1) / chunks + 1) & ~std::size_t{1};
}

template <class Y>
void run(const LinearArgs& args, const LinearRange& range) {
  alignas(64) Bf16 last[2 * kTileRows * kTile];
  const std::size_t chunk = chunk_panels((range.n1 - range.n0 + kLanes - 1) / kLanes, args.k) * kLanes;
  for (std::size_t n = range.n0; n < range.n1; n += chunk) {
    const std::size_t n_end = minimum(n + chunk, range.n1);
    for (std::size_t m = range.m0; m < range.m1; m += 2 * kTileRows) {
      const std::size_t rows = minimum(2 * kTileRows, range.m1 - m);
      const TilesOfX x = tiles_of_x(args, m, rows, last);
      if (rows > kTileRows) {
        const std::size_t next = range.m1 - m - rows < 2 * kTileRows ? range.m1 - m - rows : 2 * kTileRows;
        multiply_rows<Y>(args, x, m, rows, n, n_end, n_end - n >= kFetchColumns ? next : 0,
                         range.m1 - range.m0 <= 2 * kTileRows);
      } else {
        multiply_few<Y>(args, x, m, rows, n, n_end);
      }
    }
  }
  tiles_release();
}

// x is read as it lies.
std::size_t scratch_bytes(std::size_t, std::size_t) {
  return 0;
}
void prepare(const LinearArgs&, std::size_t, std::size_t) {}

}  // namespace

extern const LinearBf16Kernels kLinearBf16Kernels;
constinit const LinearBf16Kernels kLinearBf16Kernels = {
    .to_bf16 = {scratch_bytes, prepare, run<Bf16>},
    .to_f32 = {scratch_bytes, prepare, run<float>},
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
