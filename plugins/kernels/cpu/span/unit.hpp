// plugins/kernels/cpu/span/unit.hpp: a unit of attention without its two matrix products: reading the paged cache, and
// the order of the work. `Products` (VecProducts in span/dot.hpp, TileProducts in span/amx.cpp) provides the products
// and the softmax between them for a cache of type `Stored`. It also defines the form of queries, probabilities and
// tiles of K and V (`Tiles`). T is the model's type, E is Stored.
#pragma once

#include "kernels/cpu/span/merge.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Locates the key groups of a sequence in the cache. Key group number `group` has the sixteen tokens from 16 * group
// on. A value; borrows the unit.
template <class E>
struct Cache {
  const SpanUnit& unit;
  const KvLayout& layout;
  std::int32_t num_groups;  // key groups with at least one token of the sequence

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
  // Return the scales of a key group, which are one cache line.
  const float* key_scales(std::int32_t group) const { return scales(group, layout.key_scale_offset); }
  const float* value_scales(std::int32_t group) const { return scales(group, layout.value_scale_offset); }
  const float* scales(std::int32_t group, std::size_t offset) const {
    return reinterpret_cast<const float*>(block_of(group) + offset) + group_in_block(group) * kKeyGroup;
  }
};

// Reads the key groups of one span and prefetches. A decode unit reads each key once, from memory. While it computes
// scores it prefetches V of the span; while it multiplies by V it prefetches K of the next span or unit. So memory
// never waits for arithmetic. Invariant: the key groups that it prefetches lie inside the next unit's keys. Used by one
// thread.
template <class E>
class SpanReader {
 public:
  SpanReader(const SpanUnit& unit, std::int32_t span)
      : cache_(unit),
        first_(span * (kSpan / kKeyGroup)),
        next_(span + 1 < unit.end_span ? unit
              : unit.next != nullptr   ? *unit.next
                                       : unit) {
    const bool here = span + 1 < unit.end_span;
    if (!here && unit.next == nullptr) return;
    const std::int32_t next_span = here ? span + 1 : next_.unit.first_span;
    const KeyRange keys = keys_of_unit(next_.unit, next_span);
    next_begin_ = (next_span * kSpan + keys.begin) / kKeyGroup;
    next_end_ = minimum((next_span * kSpan + keys.end + kKeyGroup - 1) / kKeyGroup, next_.num_groups);
  }

  // Called after the first strip of a span, whose prefetches serve the other strips.
  void stop_fetching() { enabled_ = false; }
  const Cache<E>& cache() const { return cache_; }
  std::int32_t first_group() const { return first_; }
  // Returns K of the span's key group number `group`.
  const E* keys(std::int32_t group) const { return cache_.keys(first_ + group); }
  void fetch_values(std::int32_t group) const {
    if (!enabled_) return;
    fetch(cache_.values(first_ + group), cache_.layout.value_width);
    if constexpr (kHasScales<E>) __builtin_prefetch(cache_.value_scales(first_ + group), 0, 2);
  }
  // Prefetches share number `share` of `shares` equal shares of the keys that come next.
  void fetch_next_keys(std::size_t share, std::size_t shares) const {
    if (!enabled_) return;
    const std::int32_t count = next_end_ - next_begin_, i = static_cast<std::int32_t>(share);
    const std::int32_t n = static_cast<std::int32_t>(shares);
    for (std::int32_t group = count * i / n; group < count * (i + 1) / n; ++group) {
      fetch(next_.keys(next_begin_ + group), next_.layout.key_depth);
      if constexpr (kHasScales<E>) __builtin_prefetch(next_.key_scales(next_begin_ + group), 0, 2);
    }
  }

 private:
  // Prefetches into the second-level cache: in the first, these lines would evict the data in use.
  static void fetch(const E* from, std::int32_t row) {
    const char* bytes = reinterpret_cast<const char*>(from);
    const std::size_t size = kKeyGroup * index(row) * sizeof(E);
    for (std::size_t i = 0; i < size; i += 64) __builtin_prefetch(bytes + i, 0, 2);
  }

  Cache<E> cache_;
  std::int32_t first_;
  bool enabled_ = true;
  Cache<E> next_;
  std::int32_t next_begin_ = 0, next_end_ = 0;  // key groups; empty
};

// Copies the scales of the key groups that hold `keys` to scratch, in the order of the scores, since the groups' blocks
// are scattered.
template <class E>
void gather_scales(const SpanReader<E>& reader, KeyRange keys, SpanScratch& scratch) {
  const std::int32_t first = reader.first_group();
  for (std::int32_t group = keys.begin / kKeyGroup; group * kKeyGroup < keys.end; ++group) {
    const std::size_t at = index(group * kKeyGroup);
    store(scratch.key_scales + at, load(reader.cache().key_scales(first + group)));
    store(scratch.value_scales + at, load(reader.cache().value_scales(first + group)));
  }
}

// The addresses of the two key groups of each depth tile (32 keys) of V.
template <class E>
struct ValueTiles {
  const E* half[index(kSpan) / kTileDepth][2];
};

// Locates the depth tile of V whose first key group is `group`. Slots from seq_len on may hold V of any token: P is 0
// there, and V in the cache is finite (span/write.cpp). The sequence may have no block for the second key group: then
// the first one stands in for it.
template <class E>
void point_at_tile(const Cache<E>& cache, std::int32_t group, const E* (&half)[2]) {
  half[0] = cache.values(group);
  half[1] = group + 1 < cache.num_groups ? cache.values(group + 1) : half[0];
}

// A span of a unit. Prepared K and V are shared by all strips, and made when the first strip needs them: V not before
// the scores, because a decode unit prefetches it during the scores. Invariant: prepared K and V stay unchanged until
// the last strip is computed. Used by one thread.
template <class T, class Products>
class UnitSpan {
 public:
  using E = typename Products::Stored;

  UnitSpan(const SpanUnit& unit, std::int32_t span, SpanScratch& scratch)
      : span_(span), keys_(keys_of_unit(unit, span)), reader_(unit, span), scratch_(scratch) {}

  // Computes a strip's maxima, sums and O. `+ 0` of O is left to merge_partial.
  void compute(const Strip& strip, Partial partial) {
    const KeyRange keys = keys_of_unit(strip.unit, span_);
    const StripSpan p = {strip, span_, keys, whole_tiles(keys), partial};
    Products::begin_strip(strip.rows(), tiles_);
    if (!prepared_keys_) {
      Products::prepare_keys(reader_, keys_, scratch_, tiles_);
      if constexpr (kHasScales<E>) gather_scales(reader_, keys_, scratch_);
      prepared_keys_ = true;
    }
    Products::score(p, reader_, tiles_, scratch_);
    if (!prepared_values_) {
      prepare_values();
      prepared_values_ = true;
    }
    Products::set_probabilities(p, reader_, tiles_, scratch_);
    reader_.stop_fetching();
  }

 private:
  static KeyRange whole_tiles(KeyRange keys) { return {keys.begin / 32 * 32, (keys.end + 31) / 32 * 32}; }

  void prepare_values() {
    const KeyRange range = whole_tiles(keys_);
    ValueTiles<E> halves;
    for (std::int32_t tile = range.begin / 32; tile < range.end / 32; ++tile) {
      point_at_tile(reader_.cache(), reader_.first_group() + 2 * tile, halves.half[tile]);
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

bool sees_span(const SpanUnit& unit, std::int32_t span) {
  const KeyRange keys = keys_of_unit(unit, span);
  return unit.seq_len > 0 && keys.begin < keys.end;
}

// Prefetches the queries of the next unit: they are scattered and too few for the hardware prefetcher.
template <class T>
void fetch_queries(const SpanUnit* next) {
  if (next == nullptr) return;
  const std::ptrdiff_t line = 64 / static_cast<std::ptrdiff_t>(sizeof(T)), head_dim = next->layout->head_dim;
  for (std::int32_t r = 0; r < next->num_rows; ++r) {
    for (std::int32_t h = 0; h < next->num_heads; ++h) {
      const T* const q =
          static_cast<const T*>(next->q) + place_of(*next, r) * next->q_row_stride + h * next->q_head_stride;
      for (std::ptrdiff_t d = 0; d < head_dim; d += line) __builtin_prefetch(q + d, 0, 2);
    }
  }
}

// Merges the prior partials and then all spans of the unit into scratch.total, from left to right.
template <class T, class Products>
void fold_all(const SpanUnit& unit, SpanScratch& scratch) {
  const Partial partial = partial_at(scratch.span);
  const std::size_t width = index(unit.layout->value_width);
  over_strips<T>(unit, [&](const Strip& strip) {
    const Partial total = strip.partial(scratch.total);
    clear(total);
    for (const SpanPartials *prior = unit.prior, *end = prior + unit.num_prior; prior != end; ++prior) {
      for (std::int32_t n = 0; n < prior->count; ++n)
        merge_records(strip.record(*prior, n), total, strip.rows(), width);
    }
  });
  if (unit.first_span == unit.end_span) return;
  Products::begin(unit, scratch);
  clear(partial);
  for (std::int32_t span = unit.first_span; span < unit.end_span; ++span) {
    if (!sees_span(unit, span)) continue;
    if (span + 1 == unit.end_span) fetch_queries<T>(unit.next);
    UnitSpan<T, Products> unit_span(unit, span, scratch);
    over_strips<T>(unit, [&](const Strip& strip) {
      if (!sees_span(strip.unit, span)) return;
      unit_span.compute(strip, partial);
      merge_partial({partial, width}, strip.partial(scratch.total), strip.rows(), width);
    });
  }
  Products::end();
}

template <class T, class Products>
void attend(const SpanUnit& unit, SpanScratch& scratch) {
  fold_all<T, Products>(unit, scratch);
  over_strips<T>(unit, [&](const Strip& strip) { write_out<T>(strip.unit, strip.partial(scratch.total)); });
}

template <class T, class Products>
void fold(const SpanUnit& unit, SpanScratch& scratch) {
  fold_all<T, Products>(unit, scratch);
  const std::size_t width = index(unit.layout->value_width);
  over_strips<T>(unit, [&](const Strip& strip) {
    put_records(strip.partial(scratch.total), strip.record(unit.partials, 0), strip.rows(), width);
  });
}

template <class T, class Products>
void write_partials(const SpanUnit& unit, SpanScratch& scratch) {
  const Partial partial = partial_at(scratch.span);
  const std::size_t width = index(unit.layout->value_width);
  Products::begin(unit, scratch);
  for (std::int32_t span = unit.first_span; span < unit.end_span; ++span) {
    UnitSpan<T, Products> unit_span(unit, span, scratch);
    over_strips<T>(unit, [&](const Strip& strip) {
      clear(partial);
      if (sees_span(strip.unit, span)) unit_span.compute(strip, partial);
      put_records(partial, strip.record(unit.partials, span - unit.first_span), strip.rows(), width);
    });
  }
  Products::end();
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
