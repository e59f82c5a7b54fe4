// span_problem.hpp: one sequence in a paged cache, what the reference gives for its rows, and runs of kernels on it.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/linear_fp8.hpp"
#include "kernels/cpu/reference/linear_int.hpp"
#include "kernels/cpu/reference/span.hpp"

namespace mortise::cpu {

struct SpanShape {
  int head_dim, group, block_size, length, window;
};

// The kernels of one instruction set and one class.
struct SpanSet {
  std::string name;
  const SpanKernels* span;
  void (*write)(const KvWrite&);
};

// How the rows of a run become units.
struct SpanCut {
  int rows;       // of a unit, at most
  int spans;      // 0: one unit folds all; else partials of this many spans a unit, then merge
  unsigned seed;  // 0: as given; else every unit has random rows and spans up to these
};

// The model's type, the cache's, and the order of sums.
template <class T, class E, SumOrder order = SumOrder::kTiles>
struct SpanTypes {
  static constexpr SumOrder kOrder = order;
  using Model = T;
  using Stored = E;
};

template <class Types>
class SpanProblem {
 public:
  using T = typename Types::Model;
  using E = typename Types::Stored;
  static constexpr bool kScaled = sizeof(E) == 1, kFp8 = std::is_same_v<E, Fp8>;

  SpanProblem(SpanShape s, Values qk, Values v_values, unsigned seed) : shape(s), rng_(seed) {
    const std::size_t keys = index(s.length), dim = index(s.head_dim);
    q = random_values<T>(rng_, keys * index(s.group) * dim, qk);
    k = random_values<T>(rng_, keys * dim, qk);
    v = random_values<T>(rng_, keys * dim, v_values);
    scale = span_scale(1.0f / std::sqrt(static_cast<float>(s.head_dim)));
    layout = make_kv_layout(sizeof(E), kLayers, kKvHeads, s.head_dim, s.block_size);
    const int blocks = s.length / s.block_size + 1;
    table.resize(index(blocks));
    std::iota(table.begin(), table.end(), 1);  // block 0 stays free
    std::shuffle(table.begin(), table.end(), rng_);
    table.push_back(1 << 30);  // must not be read
  }

  // What the rows [first, end) give, [end - first][group][head_dim].
  std::vector<T> expected(int first, int end) const {
    std::vector<T> out;
    std::vector<float> keys = widen(k), values = widen(v);
    for (std::size_t at = 0; at < keys.size(); at += index(shape.head_dim)) {
      reference::span_written(&keys[at], &values[at], shape.head_dim);
    }
    const Tokens key = stored(std::move(keys)), value = stored(std::move(values));
    std::vector<float> o(index(shape.head_dim));
    for (int row = first; row < end; ++row) {
      for (int h = 0; h < shape.group; ++h) {
        const std::vector<float> query = widen(query_of(row, h));
        reference::span_row({sizeof(T) == 2, Types::kOrder == SumOrder::kPairs, query.data(), key.numbers.data(),
                             value.numbers.data(), shape.head_dim, row, shape.window, scale,
                             kScaled ? key.scales.data() : nullptr, kScaled ? value.scales.data() : nullptr},
                            o.data());
        for (float x : o) out.push_back(narrow(x));
      }
    }
    return out;
  }

  // A cache with the first `seq_len` tokens written. Every other slot holds the worst that an earlier sequence can have
  // left there: K is NaN, V as large as can be. With scales all other bits are ones: NaN as a scale.
  AlignedBuffer<E> cache(const SpanSet& set, int seq_len) const {
    const std::size_t blocks = table.size();
    AlignedBuffer<E> kv(blocks * layout.block_elements);
    std::fill_n(kv.data(), blocks * layout.block_elements, static_cast<E>(kScaled ? 0xff : 0));
    const std::vector<T> nan(index(shape.head_dim), narrow(float_of(0x7fc00000)));
    const std::vector<T> largest(index(shape.head_dim), narrow(float_of(0x7f7f0000)));
    for (std::size_t slot = 0; !kScaled && slot < blocks * index(shape.block_size); ++slot) {
      const auto s = static_cast<std::int64_t>(slot);
      write(set, kv, kLayer, nan.data(), largest.data(), 0, 1, &s);
    }
    std::vector<std::int64_t> slots(index(seq_len));
    for (std::size_t t = 0; t < slots.size(); ++t) {
      slots[t] = static_cast<std::int64_t>(table[t / index(shape.block_size)]) * shape.block_size +
                 static_cast<std::int64_t>(t) % shape.block_size;
    }
    write(set, kv, kLayer, k.data(), v.data(), shape.head_dim, seq_len, slots.data());
    return kv;
  }

  // The rows [first, end) on a cache that holds `seq_len` tokens.
  std::vector<T> run(const SpanSet& set, AlignedBuffer<E>& kv, int first, int end, int seq_len, SpanCut cut) const {
    std::mt19937 rng(cut.seed);
    const auto upto = [&](int n) { return cut.seed == 0 ? n : std::uniform_int_distribution<int>(1, n)(rng); };
    const std::size_t row = index(shape.group * shape.head_dim);
    const std::size_t stride = row + 24;  // rows are views into something wider
    const std::size_t rows = index(end - first);
    std::vector<T> queries(rows * stride), out(rows * stride, T{3});
    for (std::size_t r = 0; r < rows; ++r) std::copy_n(&q[(index(first) + r) * row], row, &queries[r * stride]);
    AlignedBuffer<SpanScratch> scratch(1);
    std::memset(static_cast<void*>(scratch.data()), 0xff, sizeof(SpanScratch));  // NaN
    for (int at = first; at < end;) {
      SpanUnit unit{};
      unit.num_rows = std::min(upto(std::min(cut.rows, kUnitRows / shape.group)), end - at);
      unit.num_heads = shape.group;
      unit.q = &queries[index(at - first) * stride];
      unit.out = &out[index(at - first) * stride];
      unit.q_row_stride = unit.out_row_stride = static_cast<std::ptrdiff_t>(stride);
      unit.q_head_stride = unit.out_head_stride = shape.head_dim;
      unit.position = at;
      unit.seq_len = seq_len;
      unit.window = shape.window;
      unit.scale = scale;
      unit.kv = head(kv);
      unit.layout = &layout;
      unit.block_table = table.data();
      unit.first_span = 0;
      unit.end_span = (at + unit.num_rows + kSpan - 1) / kSpan;
      attend(set, unit, cut.spans == 0 ? 0 : upto(cut.spans), *scratch.data());
      at += unit.num_rows;
    }
    std::vector<T> dense;
    for (std::size_t r = 0; r < rows; ++r) {
      dense.insert(dense.end(), &out[r * stride], &out[r * stride] + row);
      for (std::size_t i = row; i < stride; ++i) EXPECT_EQ(out[r * stride + i], T{3}) << "wrote behind row " << r;
    }
    return dense;
  }

  // Any rows, as if each were of a sequence of its own that shares all keys. What all of them see whole is read for all
  // at once: gathered in units of up to `unit_rows`, from span 0 to `folded` into one partial, the rest span by span.
  // Then each row goes on alone.
  std::vector<T> run_gathered(const SpanSet& set, AlignedBuffer<E>& kv, const std::vector<int>& rows, int unit_rows,
                              int folded) const {
    const std::size_t row = index(shape.group * shape.head_dim),
                      floats = record_floats(layout.value_width) * index(shape.group);
    const int shared = (*std::min_element(rows.begin(), rows.end()) + 1) / kSpan;
    folded = std::min(folded, shared);
    std::vector<T> out(rows.size() * row, T{3});
    AlignedBuffer<SpanScratch> scratch(1);
    std::memset(static_cast<void*>(scratch.data()), 0xff, sizeof(SpanScratch));  // NaN
    const auto stride = static_cast<std::ptrdiff_t>(rows.size() * floats);
    AlignedBuffer<float> records(rows.size() * floats * index(shared + 1));
    const auto unit_of = [&](std::size_t first, int count, int first_span, int end_span) {
      SpanUnit unit{};
      unit.num_rows = count;
      unit.num_heads = shape.group;
      unit.q = &q[index(rows[first]) * row];
      unit.out = &out[first * row];
      unit.q_row_stride = unit.out_row_stride = static_cast<std::ptrdiff_t>(row);
      unit.q_head_stride = unit.out_head_stride = shape.head_dim;
      unit.position = rows[first];
      unit.seq_len = shape.length;
      unit.window = shape.window;
      unit.scale = scale;
      unit.kv = head(kv);
      unit.layout = &layout;
      unit.block_table = table.data();
      unit.first_span = first_span;
      unit.end_span = end_span;
      return unit;
    };
    const std::vector<std::int32_t> places(rows.begin(), rows.end());
    for (std::size_t first = 0; first < rows.size(); first += index(unit_rows)) {
      const auto count = static_cast<int>(std::min(index(unit_rows), rows.size() - first));
      SpanUnit unit = unit_of(first, count, 0, folded);
      unit.q = q.data();  // row 0, which `rows` count from
      unit.out = nullptr;
      unit.rows = unit.positions = &places[first];
      const auto [least, most] = std::minmax_element(&places[first], &places[first] + count);
      unit.position = *least;
      unit.last_position = *most;
      unit.partials = {records.data() + first * floats, stride, 1};
      set.span->fold(unit, *scratch.data());
      unit.first_span = folded;
      unit.end_span = shared;
      unit.seq_len = shared * kSpan;  // what comes after lies elsewhere
      unit.partials = {records.data() + stride + static_cast<std::ptrdiff_t>(first * floats), stride, shared - folded};
      set.span->partial(unit, *scratch.data());
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      SpanUnit unit = unit_of(r, 1, shared, rows[r] / kSpan + 1);
      const SpanPartials prior[] = {
          {records.data() + r * floats, stride, 1},
          {records.data() + stride + static_cast<std::ptrdiff_t>(r * floats), stride, shared - folded}};
      unit.prior = prior;
      unit.num_prior = 2;
      set.span->attend(unit, *scratch.data());
    }
    return out;
  }

  std::vector<T> query_of(int row, int head) const {
    const auto at = q.begin() + (static_cast<std::ptrdiff_t>(row) * shape.group + head) * shape.head_dim;
    return {at, at + shape.head_dim};
  }
  // What the cache holds of [tokens, head_dim] as they are written; scales stay empty unless it has bytes.
  struct Tokens {
    std::vector<float> numbers, scales;
  };
  Tokens stored(std::vector<float> written) const {
    Tokens tokens = {std::move(written), {}};
    if constexpr (kScaled) {
      for (auto at = tokens.numbers.begin(); at != tokens.numbers.end(); at += shape.head_dim) {
        if constexpr (kFp8) {
          const reference::Fp8Weight row = reference::quantize_fp8({at, at + shape.head_dim}, 1, index(shape.head_dim));
          std::transform(row.values.begin(), row.values.end(), at, reference::from_e4m3);
          tokens.scales.push_back(row.scales[0]);
          continue;
        }
        const reference::IntRow row = reference::quantize_activations({at, at + shape.head_dim});
        std::copy(row.q.begin(), row.q.end(), at);
        tokens.scales.push_back(row.scale);
      }
    }
    return tokens;
  }
  // The numbers that attention takes for [tokens, head_dim].
  std::vector<float> meant(const std::vector<T>& from) const {
    Tokens tokens = stored(widen(from));
    for (std::size_t i = 0; kScaled && i < from.size(); ++i)
      tokens.numbers[i] *= tokens.scales[i / index(shape.head_dim)];
    return tokens.numbers;
  }
  // Where a cache has block 0 of the layer and KV head that units read.
  const E* head(AlignedBuffer<E>& kv) const {
    return kv.data() + kLayer * layout.layer_elements + kHead * layout.head_elements;
  }
  // Whether an element of the cache is that number, bit by bit.
  static bool holds(E element, float number) {
    if constexpr (kFp8) {
      return reference::from_e4m3(static_cast<std::uint8_t>(element)) == number;
    } else if constexpr (kScaled) {
      return static_cast<float>(element) == number;
    } else {
      return same_bits(&element, std::vector<T>{narrow(number)}.data(), 1);
    }
  }
  static std::vector<float> widen(const std::vector<T>& from) {
    std::vector<float> to(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      if constexpr (sizeof(T) == 2) {
        to[i] = bf16_to_float(from[i]);
      } else {
        to[i] = from[i];
      }
    }
    return to;
  }

  SpanShape shape;
  std::vector<T> q, k, v;  // q [length, group, head_dim], k and v [length, head_dim]
  float scale;
  KvLayout layout;
  std::vector<std::int32_t> table;

 private:
  static constexpr int kLayers = 2, kKvHeads = 3;
  static constexpr std::size_t kLayer = 1, kHead = 1;  // neighbours on both sides

  static std::size_t index(int n) { return static_cast<std::size_t>(n); }
  static T narrow(float x) {
    if constexpr (sizeof(T) == 2) {
      return float_to_bf16(x);
    } else {
      return x;
    }
  }

  // The same k and v for all KV heads.
  void write(const SpanSet& set, AlignedBuffer<E>& kv, std::size_t layer, const T* key, const T* value, int row_stride,
             int rows, const std::int64_t* slots) const {
    KvWrite w{};
    w.k = key;
    w.v = value;
    w.k_row_stride = w.v_row_stride = row_stride;
    w.k_head_stride = w.v_head_stride = 0;
    w.num_rows = rows;
    w.slots = slots;
    w.kv = kv.data() + layer * layout.layer_elements;
    w.layout = &layout;
    set.write(w);
  }

  static void attend(const SpanSet& set, SpanUnit unit, int spans, SpanScratch& scratch) {
    if (spans == 0) {
      set.span->attend(unit, scratch);
      return;
    }
    const std::size_t floats = record_floats(unit.layout->value_width) * index(unit.num_rows) * index(unit.num_heads);
    const int last = unit.end_span;
    AlignedBuffer<float> records(floats * index(std::max(last, 1)));
    const SpanPartials all = {records.data(), static_cast<std::ptrdiff_t>(floats), last};
    for (int span = 0; span < last; span += spans) {
      SpanUnit part = unit;
      part.first_span = span;
      part.end_span = std::min(span + spans, last);
      part.partials = {records.data() + floats * index(span), all.stride, part.end_span - span};
      set.span->partial(part, scratch);
    }
    unit.first_span = last;
    unit.prior = &all;
    unit.num_prior = 1;
    set.span->attend(unit, scratch);
  }

  mutable std::mt19937 rng_;
};

// All instruction sets of this machine, and for bf16 the AMX kernels on emulated tiles or those of VDPBF16PS, emulated.
template <class Types>
std::vector<SpanSet> span_sets();

}  // namespace mortise::cpu
