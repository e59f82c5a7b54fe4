// span_unit.hpp: a unit of attention but for its two matrix products: which keys a row sees, softmax, merging, reading
// the paged cache. A `Products` (VecProducts in span_dot.hpp, TileProducts in span_amx.cpp) brings the products, for a
// cache of its `Stored`, and says in what form they take queries, probabilities, and tiles of K and V (its `Tiles`). T
// is the model's type, E is Stored.
#pragma once

#include "kernels/cpu/io.hpp"
#include "kernels/cpu/math.hpp"
#include "kernels/cpu/span.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTileDepth = 32;      // of both products
constexpr std::size_t kSpanStride = kSpan;  // of a row of scores
constexpr std::int32_t kPrefetchRows = 8;   // with more rows there is time for the hardware to fetch by itself

constexpr std::int32_t minimum(std::int32_t a, std::int32_t b) {
  return a < b ? a : b;
}
constexpr std::int32_t maximum(std::int32_t a, std::int32_t b) {
  return a > b ? a : b;
}
constexpr std::size_t index(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

// Keys relative to a span's start; empty when end <= begin.
struct KeyRange {
  std::int32_t begin, end;
};

KeyRange visible_keys(const SpanUnit& unit, std::int32_t row, std::int32_t span) {
  const std::int32_t position = unit.position + row, start = span * kSpan;
  const std::int32_t first = unit.window > 0 ? position - unit.window + 1 : 0;
  return {maximum(first - start, 0), minimum(position + 1 - start, kSpan)};
}

// The keys that any row sees: positions ascend, so from the first row's first to the last row's last.
KeyRange keys_of_unit(const SpanUnit& unit, std::int32_t span) {
  return {visible_keys(unit, 0, span).begin, visible_keys(unit, unit.num_rows - 1, span).end};
}

// Maxima, sums and O of a span, or of the spans so far.
struct Partial {
  float *max, *sum, *o;
};
Partial partial_at(float* memory) {
  return {memory, memory + kSpanRows, memory + 2 * kSpanRows};
}

// The rows of a unit that are computed at once: a unit of their own, and where they are in the whole one.
struct Part {
  SpanUnit unit;
  std::size_t number, first;  // first: rows times heads before

  std::size_t rows() const { return index(unit.num_rows * unit.num_heads); }
  // Of the whole unit's.
  Partial partial(float* memory) const {
    return partial_at(memory + number * 2 * kSpanRows + first * index(unit.layout->value_width));
  }
};

// Calls f(part) for all parts of a unit.
template <class T, class F>
MORTISE_INLINE void over_parts(const SpanUnit& unit, const F& f) {
  const std::int32_t rows = kSpanRows / unit.num_heads;
  Part part = {unit, 0, 0};
  for (std::int32_t row = 0; row < unit.num_rows; row += rows, ++part.number) {
    part.unit.q = static_cast<const T*>(unit.q) + row * unit.q_row_stride;
    part.unit.out = static_cast<T*>(unit.out) + row * unit.out_row_stride;
    part.unit.position = unit.position + row;
    part.unit.num_rows = minimum(rows, unit.num_rows - row);
    part.first = index(row * unit.num_heads);
    f(part);
  }
}

template <class E>
constexpr bool kHasScales = sizeof(E) == sizeof(std::int8_t);

// Where the cache holds the group of sixteen tokens number `group` of the sequence.
template <class E>
struct Cache {
  const SpanUnit& unit;
  const KvLayout& layout;
  std::int32_t num_groups;  // that hold a token of the sequence

  explicit Cache(const SpanUnit& u) : unit(u), layout(*u.layout), num_groups((u.seq_len + kKeyGroup - 1) / kKeyGroup) {}

  const E* block_of(std::int32_t group) const {
    const std::size_t block = index(unit.block_table[group >> layout.group_shift]);
    return static_cast<const E*>(unit.kv) + block * layout.block_elements;
  }
  std::size_t group_in_block(std::int32_t group) const { return index(group & ((1 << layout.group_shift) - 1)); }
  const E* keys(std::int32_t group) const {
    return block_of(group) + group_in_block(group) * kKeyGroup * index(layout.key_depth);
  }
  const E* values(std::int32_t group) const {
    return block_of(group) + layout.value_offset + group_in_block(group) * kKeyGroup * index(layout.value_width);
  }
  // Of sixteen tokens: a cache line.
  const float* key_scales(std::int32_t group) const { return scales(group, layout.key_scale_offset); }
  const float* value_scales(std::int32_t group) const { return scales(group, layout.value_scale_offset); }
  const float* scales(std::int32_t group, std::size_t offset) const {
    return reinterpret_cast<const float*>(block_of(group) + offset) + group_in_block(group) * kKeyGroup;
  }
};

// The groups of one span, read and asked for ahead. A decode unit reads each key once, from memory: while it computes
// with K of a span it asks for V of that span, and while it computes with V for K of the next span, or of the next
// unit, so that memory never waits for arithmetic.
template <class E>
class SpanReader {
 public:
  SpanReader(const SpanUnit& unit, std::int32_t span)
      : cache_(unit),
        first_(span * (kSpan / kKeyGroup)),
        enabled_(unit.num_rows * unit.num_heads <= kPrefetchRows),
        next_(span + 1 < unit.end_span ? unit
              : unit.next != nullptr   ? *unit.next
                                       : unit) {
    if (!enabled_) return;
    const bool here = span + 1 < unit.end_span;
    if (!here && unit.next == nullptr) return;
    const std::int32_t next_span = here ? span + 1 : next_.unit.first_span;
    const KeyRange keys = keys_of_unit(next_.unit, next_span);
    next_begin_ = (next_span * kSpan + keys.begin) / kKeyGroup;
    next_end_ = minimum((next_span * kSpan + keys.end + kKeyGroup - 1) / kKeyGroup, next_.num_groups);
  }

  const Cache<E>& cache() const { return cache_; }
  std::int32_t first_group() const { return first_; }
  // K of the span's group number `group`.
  const E* keys(std::int32_t group) const { return cache_.keys(first_ + group); }
  void fetch_values(std::int32_t group) const {
    if (!enabled_) return;
    fetch(cache_.values(first_ + group), cache_.layout.value_width);
    if constexpr (kHasScales<E>) __builtin_prefetch(cache_.value_scales(first_ + group), 0, 2);
  }
  // Part `part` of `parts` of the keys that come next.
  void fetch_next_keys(std::size_t part, std::size_t parts) const {
    const std::int32_t count = next_end_ - next_begin_, i = static_cast<std::int32_t>(part);
    const std::int32_t n = static_cast<std::int32_t>(parts);
    for (std::int32_t group = count * i / n; group < count * (i + 1) / n; ++group) {
      fetch(next_.keys(next_begin_ + group), next_.layout.key_depth);
      if constexpr (kHasScales<E>) __builtin_prefetch(next_.key_scales(next_begin_ + group), 0, 2);
    }
  }

 private:
  // Into the second-level cache: V of a span and K of the next would push out of the first what is at work.
  static void fetch(const E* from, std::int32_t row) {
    const char* bytes = reinterpret_cast<const char*>(from);
    const std::size_t size = kKeyGroup * index(row) * sizeof(E);
    for (std::size_t i = 0; i < size; i += 64) __builtin_prefetch(bytes + i, 0, 2);
  }

  Cache<E> cache_;
  std::int32_t first_;
  bool enabled_;
  Cache<E> next_;
  std::int32_t next_begin_ = 0, next_end_ = 0;  // groups; none
};

// 2^x for x <= 0 and the same bits as exp2 there; 0 for -infinity.
MORTISE_INLINE F32x16 exp2_not_positive(F32x16 x) {
  const I32x16 n = to_int(x);
  const F32x16 r = exp2_of_parts(n, x - to_float(n));
  return select(le(x, broadcast(-126.0f)), zero(), r);
}

// The scales of the groups that hold `keys`, as the scores lie: their blocks lie apart.
template <class E>
void gather_scales(const SpanReader<E>& reader, KeyRange keys, SpanScratch& scratch) {
  const std::int32_t first = reader.first_group();
  for (std::int32_t group = keys.begin / kKeyGroup; group * kKeyGroup < keys.end; ++group) {
    const std::size_t at = index(group * kKeyGroup);
    store(scratch.key_scales + at, load(reader.cache().key_scales(first + group)));
    store(scratch.value_scales + at, load(reader.cache().value_scales(first + group)));
  }
}

// Turns the scores of row m into probabilities of the keys in `visible`, and 0 for the rest of `range` (whole tiles).
// With scales: times V's scale, but for those that are 0, as they are for keys that the row does not see: the scale of
// a slot that nobody has written may be anything.
template <class Products>
MORTISE_INLINE void softmax_row(SpanScratch& scratch, std::size_t m, float scale, KeyRange visible, KeyRange range,
                                Partial partial) {
  float* scores = scratch.scores + m * kSpanStride;
  const std::size_t first = index(visible.begin) / kLanes * kLanes, end = index(visible.end);
  const std::size_t last = (end - 1) / kLanes * kLanes;
  const F32x16 c = broadcast(scale), nothing = broadcast(-kInfinity);
  constexpr bool scaled = kHasScales<typename Products::Stored>;
  if constexpr (scaled) {
    for (std::size_t i = first; i < end; i += kLanes)
      store(scores + i, load(scores + i) * load(scratch.key_scales + i));
  }
  // Masked lanes become -infinity before anything else: they lose every maximum and their exp2 is 0.
  store(scores + first, select(first_lanes(index(visible.begin) - first), nothing, load(scores + first)));
  store(scores + last, select(first_lanes(end - last), load(scores + last), nothing));

  F32x16 largest = nothing;
  for (std::size_t i = first; i < end; i += kLanes) {
    const F32x16 t = load(scores + i) * c;
    largest = max(largest, t);
    store(scores + i, t);
  }
  const float row_max = max(largest);
  const F32x16 m_all = broadcast(row_max);
  F32x16 total = zero();
  for (std::size_t i = index(range.begin); i < first; i += kLanes) Products::put(scratch, m, i, zero());
  for (std::size_t i = first; i < end; i += kLanes) {
    const F32x16 e = exp2_not_positive(load(scores + i) - m_all);
    if constexpr (scaled) {
      total = total + e;
      Products::put(scratch, m, i, select(eq(e, zero()), zero(), e * load(scratch.value_scales + i)));
    } else {
      total = total + Products::put(scratch, m, i, e);
    }
  }
  for (std::size_t i = last + kLanes; i < index(range.end); i += kLanes) Products::put(scratch, m, i, zero());
  partial.max[m] = row_max;
  partial.sum[m] = sum(total);
}

template <class Products>
void clear_row(SpanScratch& scratch, std::size_t m, KeyRange range, Partial partial) {
  for (std::size_t i = index(range.begin); i < index(range.end); i += kLanes) Products::put(scratch, m, i, zero());
  partial.max[m] = -kInfinity;
  partial.sum[m] = 0.0f;
}

template <class Products>
void softmax_rows(const SpanUnit& unit, std::int32_t span, KeyRange range, SpanScratch& scratch, Partial partial) {
  std::size_t m = 0;
  for (std::int32_t r = 0; r < unit.num_rows; ++r) {
    const KeyRange visible = visible_keys(unit, r, span);
    for (std::int32_t h = 0; h < unit.num_heads; ++h, ++m) {
      if (visible.begin < visible.end) {
        softmax_row<Products>(scratch, m, unit.scale, visible, range, partial);
      } else {
        clear_row<Products>(scratch, m, range, partial);
      }
    }
  }
}

// Where the two groups of each 32-key tile of V lie.
template <class E>
struct ValueTiles {
  const E* half[index(kSpan) / kTileDepth][2];
};

// Room for tile `tile` of V.
template <class T>
T* tile_copy(SpanScratch& scratch, std::size_t tile, std::size_t width) {
  return reinterpret_cast<T*>(scratch.values) + tile * kTileDepth * width;
}

// The V tile whose first group is `group`. From seq_len on a slot may hold anything, NaN included, and 0 x NaN is NaN:
// the last tile of a sequence is copied and filled up with zeros. Integers are finite, but behind the last group of a
// sequence there may be no block: any other group does for it.
template <class E>
void point_at_tile(const Cache<E>& cache, std::int32_t group, E* copy, const E* (&half)[2]) {
  const std::size_t width = index(cache.layout.value_width), size = kKeyGroup * width;
  const std::int32_t left = cache.unit.seq_len - group * kKeyGroup;
  if (left >= 2 * kKeyGroup) {
    half[0] = cache.values(group);
    half[1] = cache.values(group + 1);
    return;
  }
  if constexpr (kHasScales<E>) {
    half[0] = cache.values(group);
    half[1] = left > kKeyGroup ? cache.values(group + 1) : half[0];
    return;
  }
  for (std::int32_t h = 0; h < 2; ++h) {
    E* to = copy + index(h) * size;
    half[h] = to;
    const std::int32_t tokens = minimum(left - h * kKeyGroup, kKeyGroup);
    std::memset(to, 0, size * sizeof(E));
    if (tokens <= 0) continue;
    const E* from = cache.values(group + h);
    const std::size_t whole = sizeof(E) == 2 ? index(tokens) / 2 * 2 : index(tokens);
    std::memcpy(to, from, whole * width * sizeof(E));
    if (whole < index(tokens)) {  // half of a pair
      for (std::size_t d = 0; d < width; ++d) to[whole * width + 2 * d] = from[whole * width + 2 * d];
    }
  }
}

// A span of a unit: what its parts share of K and V is made once, when the first of them needs it. A decode unit reads
// V from memory, and while it computes its scores it asks for V: so not before.
template <class T, class Products>
class UnitSpan {
 public:
  using E = typename Products::Stored;

  UnitSpan(const SpanUnit& unit, std::int32_t span, SpanScratch& scratch)
      : span_(span), keys_(keys_of_unit(unit, span)), reader_(unit, span), scratch_(scratch) {}

  // Scores, probabilities and O of a part into `partial`.
  void compute(const Part& part, Partial partial) {
    const SpanUnit& unit = part.unit;
    const KeyRange keys = keys_of_unit(unit, span_);
    const KeyRange range = whole_tiles(keys);
    Products::begin_part(part.rows());
    if (!prepared_keys_) {
      Products::prepare_keys(reader_, keys_, scratch_, tiles_);
      if constexpr (kHasScales<E>) gather_scales(reader_, keys_, scratch_);
      prepared_keys_ = true;
    }
    Products::scores(part, reader_, keys, tiles_, scratch_);
    softmax_rows<Products>(unit, span_, range, scratch_, partial);
    if (!prepared_values_) {
      prepare_values();
      prepared_values_ = true;
    }
    Products::values(part, reader_, index(range.begin) / kTileDepth, index(range.end) / kTileDepth, tiles_, scratch_,
                     partial.o);
    // + 0 makes a zero positive: its sign would depend on how many tiles with P = 0 were added.
    const std::size_t size = part.rows() * index(unit.layout->value_width);
    for (std::size_t i = 0; i < size; i += kLanes) store(partial.o + i, load(partial.o + i) + zero());
  }

 private:
  static KeyRange whole_tiles(KeyRange keys) { return {keys.begin / 32 * 32, (keys.end + 31) / 32 * 32}; }

  void prepare_values() {
    const KeyRange range = whole_tiles(keys_);
    ValueTiles<E> halves;
    for (std::int32_t tile = range.begin / 32; tile < range.end / 32; ++tile) {
      E* copy = tile_copy<E>(scratch_, index(tile), index(reader_.cache().layout.value_width));
      point_at_tile(reader_.cache(), reader_.first_group() + 2 * tile, copy, halves.half[tile]);
    }
    Products::prepare_values(reader_, halves, index(range.begin) / kTileDepth, index(range.end) / kTileDepth, scratch_,
                             tiles_);
  }

  std::int32_t span_;
  KeyRange keys_;
  SpanReader<E> reader_;
  SpanScratch& scratch_;
  bool prepared_keys_ = false, prepared_values_ = false;
  typename Products::Tiles tiles_;
};

// M = max(m1, m2), w = exp2(m - M), sum = sum1 w1 + sum2 w2, O = O1 w1 + O2 w2: product, product, sum, no fma. A row
// that has no partial yet takes the span's as it is; a row that sees nothing of the span keeps its own.
void merge_partial(Partial from, Partial into, std::size_t num_rows, std::size_t width) {
  alignas(64) float w1[kSpanRows], w2[kSpanRows];
  std::uint32_t had = 0, sees = 0;
  for (std::size_t m = 0; m < num_rows; m += kLanes) {
    const F32x16 m1 = load(into.max + m), m2 = load(from.max + m), s1 = load(into.sum + m), s2 = load(from.sum + m);
    const Mask16 has1 = !eq(s1, zero()), has2 = !eq(s2, zero());  // NaN counts as a sum
    const F32x16 largest = max(m1, m2);
    const F32x16 e1 = exp2(m1 - largest), e2 = exp2(m2 - largest);
    store(w1 + m, e1);
    store(w2 + m, e2);
    store(into.max + m, select(has2, select(has1, largest, m2), m1));
    store(into.sum + m, select(has2, select(has1, s1 * e1 + s2 * e2, s2), s1));
    had |= mask_bits(has1) << m;
    sees |= mask_bits(has2) << m;
  }
  for (std::size_t m = 0; m < num_rows; ++m) {
    if ((sees >> m & 1u) == 0) continue;
    const float* o2 = from.o + m * width;
    float* o1 = into.o + m * width;
    if ((had >> m & 1u) == 0) {
      std::memcpy(o1, o2, width * sizeof(float));
      continue;
    }
    const F32x16 e1 = broadcast(w1[m]), e2 = broadcast(w2[m]);
    for (std::size_t d = 0; d < width; d += kLanes) store(o1 + d, load(o1 + d) * e1 + load(o2 + d) * e2);
  }
}

// out = O / sum; 0 for a row that has seen no key.
template <class T>
void write_out(const SpanUnit& unit, Partial total) {
  const std::size_t width = index(unit.layout->value_width), head_dim = index(unit.layout->head_dim);
  std::size_t m = 0;
  for (std::int32_t r = 0; r < unit.num_rows; ++r) {
    for (std::int32_t h = 0; h < unit.num_heads; ++h, ++m) {
      T* out = static_cast<T*>(unit.out) + r * unit.out_row_stride + h * unit.out_head_stride;
      const F32x16 s = broadcast(total.sum[m]);
      const bool seen = !(total.sum[m] == 0.0f);
      for (std::size_t d = 0; d < head_dim; d += kLanes) {
        const F32x16 value = seen ? load(total.o + m * width + d) / s : zero();
        write_tail(out + d, value, lanes_left(head_dim - d));
      }
    }
  }
}

void clear(Partial partial) {
  for (std::size_t m = 0; m < kSpanRows; m += kLanes) {
    store(partial.max + m, broadcast(-kInfinity));
    store(partial.sum + m, zero());
  }
}

bool sees_span(const SpanUnit& unit, std::int32_t span) {
  const KeyRange keys = keys_of_unit(unit, span);
  return unit.seq_len > 0 && keys.begin < keys.end;
}

template <class T, class Products>
void attend(const SpanUnit& unit, SpanScratch& scratch) {
  const Partial partial = partial_at(scratch.span);
  const std::size_t width = index(unit.layout->value_width);
  Products::begin(unit, scratch);
  over_parts<T>(unit, [&](const Part& part) { clear(part.partial(scratch.total)); });
  clear(partial);
  for (std::int32_t span = unit.first_span; span < unit.end_span; ++span) {
    if (!sees_span(unit, span)) continue;
    UnitSpan<T, Products> unit_span(unit, span, scratch);
    over_parts<T>(unit, [&](const Part& part) {
      if (!sees_span(part.unit, span)) return;
      unit_span.compute(part, partial);
      merge_partial(partial, part.partial(scratch.total), part.rows(), width);
    });
  }
  Products::end();
  over_parts<T>(unit, [&](const Part& part) { write_out<T>(part.unit, part.partial(scratch.total)); });
}

template <class T, class Products>
void write_partials(const SpanUnit& unit, SpanScratch& scratch) {
  const std::size_t floats = partial_floats(unit.layout->value_width, unit.num_rows, unit.num_heads);
  Products::begin(unit, scratch);
  for (std::int32_t span = unit.first_span; span < unit.end_span; ++span) {
    float* const to = unit.partials + index(span - unit.first_span) * floats;
    UnitSpan<T, Products> unit_span(unit, span, scratch);
    over_parts<T>(unit, [&](const Part& part) {
      clear(part.partial(to));
      if (sees_span(part.unit, span)) unit_span.compute(part, part.partial(to));
    });
  }
  Products::end();
}

template <class T>
void merge(const SpanUnit& unit, SpanScratch& scratch) {
  const std::size_t floats = partial_floats(unit.layout->value_width, unit.num_rows, unit.num_heads);
  over_parts<T>(unit, [&](const Part& part) {
    const Partial total = part.partial(scratch.total);
    clear(total);
    for (std::int32_t n = 0; n < unit.end_span - unit.first_span; ++n) {
      merge_partial(part.partial(unit.partials + index(n) * floats), total, part.rows(),
                    index(unit.layout->value_width));
    }
    write_out<T>(part.unit, total);
  });
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
