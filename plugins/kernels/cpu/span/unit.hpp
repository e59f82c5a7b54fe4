// span/unit.hpp: a unit of attention but for its two matrix products: reading the paged cache, the order of the work.
// A `Products` (VecProducts in span/dot.hpp, TileProducts in span/amx.cpp) brings the products, for a
// cache of its `Stored`, with the softmax between them, and says in what form they take queries, probabilities, and
// tiles of K and V (its `Tiles`). T is the model's type, E is Stored.
#pragma once

#include "kernels/cpu/span/merge.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

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

  // What the span's first part has asked for is there for the others.
  void stop_fetching() { enabled_ = false; }
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
    if (!enabled_) return;
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
  bool enabled_ = true;
  Cache<E> next_;
  std::int32_t next_begin_ = 0, next_end_ = 0;  // groups; none
};

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

// Where the two groups of each 32-key tile of V lie.
template <class E>
struct ValueTiles {
  const E* half[index(kSpan) / kTileDepth][2];
};

// The V tile whose first group is `group`. From seq_len on a slot may hold V of any token, and meets P = 0 there: V in
// the cache is finite (span/write.cpp). Behind the last group of a sequence there may be no block: any other group does
// for it.
template <class E>
void point_at_tile(const Cache<E>& cache, std::int32_t group, const E* (&half)[2]) {
  half[0] = cache.values(group);
  half[1] = group + 1 < cache.num_groups ? cache.values(group + 1) : half[0];
}

// A span of a unit: what its parts share of K and V is made once, when the first of them needs it. A decode unit reads
// V from memory, and while it computes its scores it asks for V: so not before.
template <class T, class Products>
class UnitSpan {
 public:
  using E = typename Products::Stored;

  UnitSpan(const SpanUnit& unit, std::int32_t span, SpanScratch& scratch)
      : span_(span), keys_(keys_of_unit(unit, span)), reader_(unit, span), scratch_(scratch) {}

  // The maxima, sums and O of a part into `partial`, O but for + 0 (merge_partial).
  void compute(const Part& part, Partial partial) {
    const KeyRange keys = keys_of_unit(part.unit, span_);
    const PartSpan p = {part, span_, keys, whole_tiles(keys), partial};
    Products::begin_part(part.rows(), tiles_);
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
    Products::weigh(p, reader_, tiles_, scratch_);
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

// The queries of the unit that comes next: they lie apart, too few for the hardware to see a pattern.
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

// What is prior and all spans of the unit into scratch.total, from left to right.
template <class T, class Products>
void fold_all(const SpanUnit& unit, SpanScratch& scratch) {
  const Partial partial = partial_at(scratch.span);
  const std::size_t width = index(unit.layout->value_width);
  over_parts<T>(unit, [&](const Part& part) {
    const Partial total = part.partial(scratch.total);
    clear(total);
    for (const SpanPartials *prior = unit.prior, *end = prior + unit.num_prior; prior != end; ++prior) {
      for (std::int32_t n = 0; n < prior->count; ++n) merge_records(part.record(*prior, n), total, part.rows(), width);
    }
  });
  if (unit.first_span == unit.end_span) return;
  Products::begin(unit, scratch);
  clear(partial);
  for (std::int32_t span = unit.first_span; span < unit.end_span; ++span) {
    if (!sees_span(unit, span)) continue;
    if (span + 1 == unit.end_span) fetch_queries<T>(unit.next);
    UnitSpan<T, Products> unit_span(unit, span, scratch);
    over_parts<T>(unit, [&](const Part& part) {
      if (!sees_span(part.unit, span)) return;
      unit_span.compute(part, partial);
      merge_partial({partial, width}, part.partial(scratch.total), part.rows(), width);
    });
  }
  Products::end();
}

template <class T, class Products>
void attend(const SpanUnit& unit, SpanScratch& scratch) {
  fold_all<T, Products>(unit, scratch);
  over_parts<T>(unit, [&](const Part& part) { write_out<T>(part.unit, part.partial(scratch.total)); });
}

template <class T, class Products>
void fold(const SpanUnit& unit, SpanScratch& scratch) {
  fold_all<T, Products>(unit, scratch);
  const std::size_t width = index(unit.layout->value_width);
  over_parts<T>(unit, [&](const Part& part) {
    put_records(part.partial(scratch.total), part.record(unit.partials, 0), part.rows(), width);
  });
}

template <class T, class Products>
void write_partials(const SpanUnit& unit, SpanScratch& scratch) {
  const Partial partial = partial_at(scratch.span);
  const std::size_t width = index(unit.layout->value_width);
  Products::begin(unit, scratch);
  for (std::int32_t span = unit.first_span; span < unit.end_span; ++span) {
    UnitSpan<T, Products> unit_span(unit, span, scratch);
    over_parts<T>(unit, [&](const Part& part) {
      clear(partial);
      if (sees_span(part.unit, span)) unit_span.compute(part, partial);
      put_records(partial, part.record(unit.partials, span - unit.first_span), part.rows(), width);
    });
  }
  Products::end();
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
