// runtime/conformance/device_op_cases.cpp: rules of a device's operations. Where mortise/numerics.h specifies the bits
// of the device's numerics id, outputs are compared with it; elsewhere with a computation in double. Whatever the id,
// no bit of a row may depend on other rows.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>

#include "conformance/device_matrix.hpp"
#include "conformance/subject.hpp"
#include "mortise/numerics.h"

namespace mortise::conformance {
namespace {

constexpr float kEps = 1e-5f;

// Denormals are off while it lives, as numerics.h requires.
class DenormalsOff {
 public:
  DenormalsOff() : saved_(mortise_denormals_off()) {}
  ~DenormalsOff() { mortise_denormals_restore(saved_); }
  DenormalsOff(const DenormalsOff&) = delete;
  DenormalsOff& operator=(const DenormalsOff&) = delete;

 private:
  std::uint64_t saved_;
};

// The device under test, computing in one type.
struct Bench {
  Subject& subject;
  const Part& part;
  DeviceAccess device;
  std::int32_t dtype;
  bool is_known;          // numerics.h specifies all operations but linear
  bool has_known_linear;  // and linear

  bool bf16() const { return dtype == MORTISE_BF16; }
  std::mt19937_64& random() const { return subject.random(); }
  Matrix draw(std::int64_t rows, std::int64_t columns, float range = 1) const {
    return draw_matrix(random(), dtype, rows, columns, range);
  }
  // Calls an operation that must succeed.
  template <typename Call>
  void run(const char* function, const Call& call) const {
    device.perform(function, [&](mortise_error* error) { return call(*device.table, device.device, error); });
  }
};

// Calls `work` for each type that the device computes in.
void in_each_type(Subject& subject, const std::function<void(const Bench&)>& work) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  for (const std::int32_t dtype : {MORTISE_BF16, MORTISE_F32}) {
    const char* const id = device.table->numerics_id(device.device, dtype);
    if (id == nullptr) continue;
    const std::string_view name = id;
    const bool is_cpu = name == "cpu-bf16/1" || name == "cpu-f32/1";
    work({subject, *part, device, dtype, is_cpu || name == "cuda-bf16/1", is_cpu});
  }
}

using Rows = std::function<Matrix(const Matrix& x)>;

// `compute` gives every row of x the bits that it has alone, and in every other order.
void expect_independent(const Bench& bench, const Matrix& x, const Matrix& whole, const Rows& compute,
                        const char* what) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rows));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, bench.random());
  expect_equal(whole.rows_at(order), compute(x.rows_at(order)), what);
  for (const std::size_t count : {std::size_t{1}, order.size() / 2}) {
    const std::vector<std::int64_t> some(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    expect_equal(whole.rows_at(some), compute(x.rows_at(some)), what);
  }
}

// --- linear ---

struct Product {
  const Bench& bench;
  Matrix w, bias;
  DeviceWeight weight, bias_weight;

  Product(const Bench& of, std::int64_t n, std::int64_t k, bool has_bias)
      : bench(of), w(of.draw(n, k)), bias(of.draw(1, n)) {
    weight = prepare(of.device, {MORTISE_WEIGHT_LINEAR, of.dtype}, {w});
    if (has_bias) bias_weight = prepare_vector(of.device, bias);
  }
  // `end` 0: all columns.
  Matrix operator()(const Matrix& x, std::int32_t out_dtype, std::int32_t begin = 0, std::int32_t end = 0,
                    std::int64_t gap = 0, std::int32_t gate = 0) const {
    const std::int64_t columns = gate != 0 ? w.rows / 2 : end == 0 ? w.rows : end - begin;
    const DeviceMatrix in(bench.device, x, gap), out(bench.device, zeros(out_dtype, x.rows, columns), gap);
    mortise_linear_args args{};
    args.struct_size = sizeof args;
    args.x = in.tensor();
    args.weight = weight.get();
    args.bias = bias_weight.get();
    args.out = out.tensor();
    args.column_begin = begin;
    args.column_end = end;
    args.gate_activation = gate;
    bench.run("linear", [&](const auto& table, auto* device, mortise_error* error) {
      return table.linear(device, nullptr, &args, error);
    });
    expect_equal(x, in.read(), "linear changes x");
    return out.read();
  }
  Matrix expected(const Matrix& x, std::int32_t out_dtype) const {
    const DenormalsOff denormals_off;
    Matrix y = zeros(out_dtype, x.rows, w.rows);
    for (std::int64_t m = 0; m < x.rows; ++m) {
      for (std::int64_t n = 0; n < w.rows; ++n) {
        float sum = mortise_dot(x.row(m), w.row(n), w.columns);
        if (bias_weight != nullptr) sum = sum + bias.row(0)[n];
        y.row(m)[n] = mortise_round(sum, out_dtype == MORTISE_BF16);
      }
    }
    return y;
  }
};

void linear_is_right(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const struct {
      std::int64_t m, n, k;
    } shapes[] = {{1, 64, 32}, {3, 100, 64}, {7, 64, 100}, {40, 192, 256}, {130, 70, 31}};
    for (const auto& [m, n, k] : shapes) {
      for (const bool has_bias : {false, true}) {
        const Product product(bench, n, k, has_bias);
        const Matrix x = bench.draw(m, k);
        for (const std::int32_t out_dtype : {bench.dtype, std::int32_t{MORTISE_F32}}) {
          const Matrix expected = product.expected(x, out_dtype), found = product(x, out_dtype);
          if (bench.has_known_linear) {
            expect_equal(expected, found, "linear");
          } else {
            expect_close(expected, found, 0.02 * std::sqrt(static_cast<double>(k)), "linear");
          }
        }
      }
    }
  });
}

void linear_rows_are_independent(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    for (const std::int64_t k : {64, 320, 1024}) {
      const Product product(bench, 192, k, true);
      const Matrix x = bench.draw(70, k);
      const auto compute = [&](const Matrix& some) { return product(some, bench.dtype); };
      expect_independent(bench, x, compute(x), compute, "linear: a row changes with the other rows");
    }
  });
}

void linear_columns_are_independent(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const Product product(bench, 200, 128, true);
    const Matrix x = bench.draw(9, 128), whole = product(x, MORTISE_F32);
    for (const auto& [begin, end] : {std::pair(0, 64), std::pair(64, 192), std::pair(128, 200)}) {
      Matrix expected = zeros(MORTISE_F32, x.rows, end - begin);
      for (std::int64_t r = 0; r < x.rows; ++r) std::copy_n(whole.row(r) + begin, end - begin, expected.row(r));
      expect_equal(expected, product(x, MORTISE_F32, begin, end), "linear: a column changes with column_begin");
    }
  });
}

void linear_takes_strided_rows(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const Product product(bench, 128, 96, false);
    const Matrix x = bench.draw(20, 96);
    expect_equal(product(x, bench.dtype), product(x, bench.dtype, 0, 0, 64), "linear: a row changes with the stride");
  });
}

void linear_joins_parts(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const Product whole(bench, 192, 64, false);
    Product joined = whole;
    joined.weight =
        prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {whole.w.rows_at({0, 1, 2, 3, 4, 5, 6, 7}), [&] {
                                                                       std::vector<std::int64_t> rest(184);
                                                                       std::iota(rest.begin(), rest.end(), 8);
                                                                       return whole.w.rows_at(rest);
                                                                     }()});
    const Matrix x = bench.draw(5, 64);
    expect_equal(whole(x, bench.dtype), joined(x, bench.dtype), "linear: a weight of two parts gives other bits");
  });
}

void linear_gates(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const Product product(bench, 256, 64, false);
    const Matrix x = bench.draw(6, 64), y = product(x, bench.dtype);
    for (const std::int32_t gate : {MORTISE_ACT_SILU, MORTISE_ACT_GELU, MORTISE_ACT_GELU_TANH, MORTISE_ACT_RELU}) {
      const DeviceMatrix in(bench.device, y), out(bench.device, zeros(bench.dtype, 6, 128));
      bench.run("gated_activation", [&](const auto& table, auto* device, mortise_error* error) {
        return table.gated_activation(device, nullptr, gate, in.tensor(), out.tensor(), error);
      });
      expect_equal(out.read(), product(x, bench.dtype, 0, 0, 0, gate),
                   "linear with gate_activation differs from linear and gated_activation");
    }
  });
}

// Weights in fewer bits: near the product, and rows of their own.
void quantised_linear(Subject& subject) {
  int num_forms = 0;
  in_each_type(subject, [&](const Bench& bench) {
    const WeightForm forms[] = {{MORTISE_WEIGHT_LINEAR, bench.dtype, 8, 0, 0},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 8, 64, 0},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 4, 64, 0},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 8, 0, MORTISE_F8_E4M3}};
    for (const WeightForm& form : forms) {
      const std::int32_t asked = form.value_type == 0 ? MORTISE_I8 : MORTISE_F8_E4M3;
      if (bench.device.table->numerics_id(bench.device.device, asked) == nullptr) continue;
      ++num_forms;
      Product product(bench, 128, 256, false);
      product.weight = prepare(bench.device, form, {product.w});
      const Matrix x = bench.draw(33, 256);
      const auto compute = [&](const Matrix& some) { return product(some, bench.dtype); };
      const Matrix found = compute(x);
      // The error of a step of the weights, of numbers in [-1, 1], over 256 products.
      const double step = form.bits == 4 ? 1.0 / 8 : form.value_type != 0 ? 1.0 / 16 : 1.0 / 128;
      expect_close(product.expected(x, bench.dtype), found, 16 * step + 0.1, "linear with quantised weights");
      expect_independent(bench, x, found, compute, "linear with quantised weights: a row changes with the other rows");
    }
  });
  if (num_forms == 0) throw NotApplicable("it has no linear with quantised weights");
}

// --- rows ---

void embed_copies_rows(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const Matrix table = bench.draw(50, 72);
    const DeviceWeight weight = prepare(bench.device, {MORTISE_WEIGHT_EMBEDDING, bench.dtype}, {table});
    const DeviceWeight tied =
        prepare(bench.device, {MORTISE_WEIGHT_EMBEDDING | MORTISE_WEIGHT_LINEAR, bench.dtype}, {table});
    const std::vector<std::int32_t> ids = {0, 49, 7, 7, 30};
    const DeviceBuffer on = on_device(bench.device, ids);
    for (const DeviceWeight& one : {weight, tied}) {
      const DeviceMatrix out(bench.device, zeros(bench.dtype, 5, 72), 8);
      bench.run("embed", [&](const auto& calls, auto* device, mortise_error* error) {
        return calls.embed(device, nullptr, on.data<std::int32_t>(), one.get(), out.tensor(), error);
      });
      expect_equal(table.rows_at({0, 49, 7, 7, 30}), out.read(), "embed");
    }
  });
}

// rms_norm or layer_norm of x, with the sum with `residual` if there is one.
struct Norm {
  const Bench& bench;
  bool is_layer_norm;
  Matrix weight, bias;
  DeviceWeight weight_on, bias_on;

  Norm(const Bench& of, bool layer_norm, std::int64_t n, bool has_bias)
      : bench(of), is_layer_norm(layer_norm), weight(of.draw(1, n)), bias(of.draw(1, n)) {
    weight_on = prepare_vector(of.device, weight);
    if (has_bias) bias_on = prepare_vector(of.device, bias);
  }
  Matrix operator()(const Matrix& x, Matrix* residual, bool in_place) const {
    const DeviceMatrix in(bench.device, x), out(bench.device, zeros(bench.dtype, x.rows, x.columns));
    const DeviceMatrix sum(bench.device, residual == nullptr ? x : *residual);
    mortise_norm_args args{};
    args.struct_size = sizeof args;
    args.x = in.tensor();
    args.residual = residual == nullptr ? nullptr : sum.tensor();
    args.weight = weight_on.get();
    args.bias = bias_on.get();
    args.out = in_place ? in.tensor() : out.tensor();
    args.eps = kEps;
    bench.run(is_layer_norm ? "layer_norm" : "rms_norm", [&](const auto& table, auto* device, mortise_error* error) {
      return is_layer_norm ? table.layer_norm(device, nullptr, &args, error)
                           : table.rms_norm(device, nullptr, &args, error);
    });
    if (residual != nullptr) *residual = sum.read();
    return in_place ? in.read() : out.read();
  }
  Matrix expected(const Matrix& x) const {
    const DenormalsOff denormals_off;
    Matrix y = zeros(bench.dtype, x.rows, x.columns);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      if (is_layer_norm) {
        mortise_layer_norm(bench.bf16(), x.row(r), weight.row(0), bias_on == nullptr ? nullptr : bias.row(0), kEps,
                           x.columns, y.row(r));
      } else {
        mortise_rms_norm(bench.bf16(), x.row(r), weight.row(0), kEps, x.columns, y.row(r));
      }
    }
    return y;
  }
};

Matrix sum_of(const Bench& bench, const Matrix& a, const Matrix& b) {
  const DenormalsOff denormals_off;
  Matrix sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] = mortise_round(a.values[i] + b.values[i], bench.bf16());
  }
  return sum;
}

void expect_like(const Bench& bench, const Matrix& expected, const Matrix& found, const char* what) {
  if (bench.is_known) {
    expect_equal(expected, found, what);
  } else {
    expect_close(expected, found, bench.bf16() ? 0.05 : 1e-4, what);
  }
}

void norms_are_right(const Bench& bench, bool is_layer_norm) {
  const char* const name = is_layer_norm ? "layer_norm" : "rms_norm";
  for (const std::int64_t n : {1, 16, 33, 200, 1000}) {
    for (const bool has_bias : {false, true}) {
      if (has_bias && !is_layer_norm) continue;
      const Norm norm(bench, is_layer_norm, n, has_bias);
      const Matrix x = bench.draw(17, n, 3);
      const Matrix found = norm(x, nullptr, false);
      expect_like(bench, norm.expected(x), found, name);
      expect_equal(found, norm(x, nullptr, true), "a norm gives other bits where out is x");
      Matrix residual = bench.draw(17, n, 3);
      const Matrix sum = sum_of(bench, x, residual);
      expect_like(bench, norm.expected(sum), norm(x, &residual, false), "a norm with a residual");
      expect_like(bench, sum, residual, "the residual of a norm");
      const auto compute = [&](const Matrix& some) { return norm(some, nullptr, false); };
      expect_independent(bench, x, found, compute, "a norm: a row changes with the other rows");
    }
  }
}
void rms_norm(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) { norms_are_right(bench, false); });
}
void layer_norm(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) { norms_are_right(bench, true); });
}

void activations(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    for (const std::int32_t act : {MORTISE_ACT_SILU, MORTISE_ACT_GELU, MORTISE_ACT_GELU_TANH, MORTISE_ACT_RELU}) {
      for (const std::int64_t n : {1, 31, 128, 300}) {
        const Matrix x = bench.draw(5, n, 8), pairs = bench.draw(5, 2 * n, 8);
        Matrix plain = zeros(bench.dtype, 5, n), gated = plain;
        {
          const DenormalsOff denormals_off;
          for (std::int64_t r = 0; r < 5; ++r) {
            for (std::int64_t i = 0; i < n; ++i) {
              plain.row(r)[i] = mortise_round(mortise_activation(act, x.row(r)[i]), bench.bf16());
              const float gate = mortise_round(mortise_activation(act, pairs.row(r)[i]), bench.bf16());
              gated.row(r)[i] = mortise_round(gate * pairs.row(r)[n + i], bench.bf16());
            }
          }
        }
        const DeviceMatrix in(bench.device, x), in_pairs(bench.device, pairs), out(bench.device, plain),
            gated_out(bench.device, zeros(bench.dtype, 5, n));
        bench.run("gated_activation", [&](const auto& table, auto* device, mortise_error* error) {
          return table.gated_activation(device, nullptr, act, in_pairs.tensor(), gated_out.tensor(), error);
        });
        expect_like(bench, gated, gated_out.read(), "gated_activation");
        for (const auto* target : {out.tensor(), in.tensor()}) {  // the last one in place
          bench.run("activation", [&](const auto& table, auto* device, mortise_error* error) {
            return table.activation(device, nullptr, act, in.tensor(), target, error);
          });
        }
        expect_like(bench, plain, out.read(), "activation");
        expect_like(bench, plain, in.read(), "activation in place");
      }
    }
  });
}

void adds(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    for (const std::int64_t n : {1, 40, 257}) {
      const Matrix a = bench.draw(6, n, 100), b = bench.draw(6, n);
      const DeviceMatrix left(bench.device, a), right(bench.device, b), out(bench.device, zeros(bench.dtype, 6, n));
      for (const auto* target : {out.tensor(), left.tensor()}) {
        bench.run("add", [&](const auto& table, auto* device, mortise_error* error) {
          return table.add(device, nullptr, left.tensor(), right.tensor(), target, error);
        });
      }
      expect_like(bench, sum_of(bench, a, b), out.read(), "add");
      expect_like(bench, sum_of(bench, a, b), left.read(), "add in place");
    }
  });
}

void rows_are_moved(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const Matrix x = bench.draw(12, 50);
    const std::vector<std::int32_t> rows = {11, 0, 5, 7};
    const DeviceBuffer on = on_device(bench.device, rows);
    const DeviceMatrix in(bench.device, x, 3), gathered(bench.device, zeros(bench.dtype, 4, 50), 5);
    bench.run("gather_rows", [&](const auto& table, auto* device, mortise_error* error) {
      return table.gather_rows(device, nullptr, in.tensor(), on.data<std::int32_t>(), gathered.tensor(), error);
    });
    expect_equal(x.rows_at({11, 0, 5, 7}), gathered.read(), "gather_rows");
    const Matrix new_rows = bench.draw(4, 50);
    const DeviceMatrix from(bench.device, new_rows);
    bench.run("scatter_rows", [&](const auto& table, auto* device, mortise_error* error) {
      return table.scatter_rows(device, nullptr, from.tensor(), on.data<std::int32_t>(), in.tensor(), error);
    });
    Matrix expected = x;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(new_rows.row(static_cast<std::int64_t>(i)), 50, expected.row(rows[i]));
    }
    expect_equal(expected, in.read(), "scatter_rows");
  });
}

// NaN and infinity in one row stay in that row, and a NaN that is stored is the canonical one.
void odd_numbers_stay_in_their_row(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const Product product(bench, 64, 64, false);
    const Norm norm(bench, false, 64, false);
    const Matrix sound = bench.draw(9, 64);
    Matrix x = sound;
    x.row(4)[10] = MORTISE_NAN;
    x.row(6)[3] = MORTISE_INFINITY;
    const std::vector<std::int64_t> others = {0, 1, 2, 3, 5, 7, 8};
    const Matrix products = product(x, bench.dtype), norms = norm(x, nullptr, false);
    expect_equal(product(sound, bench.dtype).rows_at(others), products.rows_at(others),
                 "linear: NaN or infinity in a row changes another row");
    expect_equal(norm(sound, nullptr, false).rows_at(others), norms.rows_at(others),
                 "rms_norm: NaN or infinity in a row changes another row");
    Matrix nan = zeros(bench.dtype, 1, 64);
    std::ranges::fill(nan.values, MORTISE_NAN);
    expect_equal(nan, products.rows_at({4}), "linear: a row with NaN is not the canonical NaN");
  });
}

// --- logits ---

void head_reduce_is_right(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    std::int32_t slice = 0;
    bench.run("vocab_slice", [&](const auto& table, auto* device, mortise_error*) {
      return slice = table.vocab_slice(device), MORTISE_OK;
    });
    expect(slice > 0, "vocab_slice is {}", slice);
    const std::int64_t rows = 5, vocab = 2 * slice + 100;
    const std::int32_t top_n = 4;
    Matrix logits = draw_matrix(bench.random(), MORTISE_F32, rows, vocab, 20);
    logits.row(1)[7] = logits.row(1)[3000 % vocab] = 30;  // equal logits: the smaller id comes first
    const std::vector<std::int32_t> targets = {0, static_cast<std::int32_t>(vocab - 1), -1, slice, 17};
    const DeviceBuffer on_targets = on_device(bench.device, targets);
    // Whole, and in slices.
    std::vector<std::vector<float>> lses, target_logits;
    std::vector<std::vector<std::int32_t>> ids, ranks;
    for (const std::int64_t step : {vocab, static_cast<std::int64_t>(slice)}) {
      const auto bytes = static_cast<std::size_t>(rows) * sizeof(float);
      const DeviceBuffer max(bench.device, bytes), sum(bench.device, bytes), lse(bench.device, bytes),
          of_target(bench.device, bytes), rank(bench.device, bytes), top_ids(bench.device, bytes * top_n),
          top_logits(bench.device, bytes * top_n);
      for (const bool second : {false, true}) {
        for (std::int64_t begin = 0; begin < vocab; begin += step) {
          const std::int64_t count = std::min(step, vocab - begin);
          Matrix some = zeros(MORTISE_F32, rows, count);
          for (std::int64_t r = 0; r < rows; ++r) std::copy_n(logits.row(r) + begin, count, some.row(r));
          const DeviceMatrix on(bench.device, some);
          mortise_head_reduce_args args{};
          args.struct_size = sizeof args;
          args.logits = on.tensor();
          args.vocab_begin = static_cast<std::int32_t>(begin);
          args.first = begin == 0 ? 1 : 0;
          args.targets = on_targets.data<std::int32_t>();
          args.target_logits = of_target.data<float>();
          if (second) {
            args.ranks = rank.data<std::int32_t>();
          } else {
            args.max = max.data<float>();
            args.sum = sum.data<float>();
            args.lse = lse.data<float>();
            args.top_n = top_n;
            args.top_ids = top_ids.data<std::int32_t>();
            args.top_logits = top_logits.data<float>();
          }
          bench.run("head_reduce", [&](const auto& table, auto* device, mortise_error* error) {
            return table.head_reduce(device, nullptr, &args, error);
          });
        }
      }
      lses.push_back(values_of<float>(lse));
      target_logits.push_back(values_of<float>(of_target));
      ids.push_back(values_of<std::int32_t>(top_ids));
      ranks.push_back(values_of<std::int32_t>(rank));
    }
    expect(lses[0] == lses[1] && target_logits[0] == target_logits[1] && ids[0] == ids[1] && ranks[0] == ranks[1],
           "head_reduce gives other results slice by slice than at once");
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = static_cast<std::size_t>(r);
      std::vector<std::int32_t> order(static_cast<std::size_t>(vocab));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, std::greater<>(), [&](std::int32_t token) { return logits.row(r)[token]; });
      for (std::size_t i = 0; i < top_n; ++i) {
        expect(ids[0][at * top_n + i] == order[i], "head_reduce: row {}: top_ids[{}] is {}, expected {}", r, i,
               ids[0][at * top_n + i], order[i]);
      }
      if (targets[at] >= 0) {
        expect(target_logits[0][at] == logits.row(r)[targets[at]], "head_reduce: row {}: target_logits is {}", r,
               target_logits[0][at]);
        const auto place = std::ranges::find(order, targets[at]) - order.begin();
        expect(ranks[0][at] == place, "head_reduce: row {}: ranks is {}, expected {}", r, ranks[0][at], place);
      }
      const DenormalsOff denormals_off;
      float max = -MORTISE_INFINITY, sum = 0;
      mortise_log_sum_exp(logits.row(r), vocab, &max, &sum);
      const float lse = max + mortise_log(sum);
      const bool is_exact = bench.is_known && slice == MORTISE_VOCAB_SLICE;
      expect(is_exact ? lses[0][at] == lse : std::abs(lses[0][at] - lse) < 1e-3f,
             "head_reduce: row {}: lse is {}, expected {}", r, lses[0][at], lse);
    }
  });
}

struct Sampled {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
};

// Rows with all parameters drawn.
struct Sampling {
  Matrix logits;
  std::vector<float> temperatures, top_ps, min_ps;
  std::vector<std::int32_t> top_ks, edit_begins, edit_counts, allowed_index;
  std::vector<std::uint64_t> keys;
  std::vector<std::int64_t> positions;
  std::vector<mortise_logit_edit> edits;
  std::vector<std::uint32_t> masks;

  Sampling(std::mt19937_64& random, std::int64_t rows, std::int64_t vocab)
      : logits(draw_matrix(random, MORTISE_F32, rows, vocab, 6)) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto pick = [&](auto... choices) {
        const float all[] = {static_cast<float>(choices)...};
        return all[random() % (sizeof all / sizeof *all)];
      };
      temperatures.push_back(pick(0, 0.5, 1, 1.7));
      top_ps.push_back(pick(1, 0.9, 0.3));
      min_ps.push_back(pick(0, 0.05, 0.3));
      top_ks.push_back(static_cast<std::int32_t>(pick(0, 1, 5, 50)));
      keys.push_back(random());
      positions.push_back(static_cast<std::int64_t>(random() % 5000));
      edit_begins.push_back(static_cast<std::int32_t>(edits.size()));
      edit_counts.push_back(static_cast<std::int32_t>(random() % 3));
      for (std::int32_t i = 0; i < edit_counts.back(); ++i) {
        edits.push_back({static_cast<std::int32_t>(5 + 7 * i), pick(0, 3, -2), pick(1, 1.5), pick(0, 0.25)});
      }
      allowed_index.push_back(random() % 3 == 0 ? 0 : -1);
    }
    for (std::int64_t word = 0; word < (vocab + 31) / 32; ++word) masks.push_back(static_cast<std::uint32_t>(random()));
    edits.push_back({});  // so that there is memory to point to
  }

  Sampled by_device(const Bench& bench, std::int64_t first, std::int64_t count) const {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), first);
    const auto part = [&](const auto& all) {
      return on_device(bench.device, std::vector(all.begin() + first, all.begin() + first + count));
    };
    const DeviceMatrix on(bench.device, logits.rows_at(order));
    const DeviceBuffer temperature = part(temperatures), top_p = part(top_ps), min_p = part(min_ps),
                       top_k = part(top_ks), key = part(keys), position = part(positions), begins = part(edit_begins),
                       counts = part(edit_counts), allowed = part(allowed_index),
                       all_edits = on_device(bench.device, edits), all_masks = on_device(bench.device, masks),
                       tokens(bench.device, static_cast<std::size_t>(count) * 4),
                       logprobs(bench.device, static_cast<std::size_t>(count) * 4);
    mortise_sample_args args{};
    args.struct_size = sizeof args;
    args.logits = on.tensor();
    args.temperatures = temperature.data<float>();
    args.top_ks = top_k.data<std::int32_t>();
    args.top_ps = top_p.data<float>();
    args.min_ps = min_p.data<float>();
    args.keys = key.data<std::uint64_t>();
    args.positions = position.data<std::int64_t>();
    args.edits = all_edits.data<mortise_logit_edit>();
    args.edit_begins = begins.data<std::int32_t>();
    args.edit_counts = counts.data<std::int32_t>();
    args.allowed_index = allowed.data<std::int32_t>();
    args.allowed_masks = all_masks.data<std::uint32_t>();
    args.tokens = tokens.data<std::int32_t>();
    args.processed_logprobs = logprobs.data<float>();
    bench.run("sample", [&](const auto& table, auto* device, mortise_error* error) {
      return table.sample(device, nullptr, &args, error);
    });
    expect_equal(logits.rows_at(order), on.read(), "sample changes the logits");
    return {values_of<std::int32_t>(tokens), values_of<float>(logprobs)};
  }

  Sampled expected() const {
    const DenormalsOff denormals_off;
    Sampled all;
    std::vector<mortise_candidate> scratch(static_cast<std::size_t>(logits.columns));
    for (std::size_t r = 0; r < keys.size(); ++r) {
      mortise_sample_row row{};
      row.logits = logits.row(static_cast<std::int64_t>(r));
      row.vocab_size = logits.columns;
      row.temperature = temperatures[r];
      row.top_p = top_ps[r];
      row.min_p = min_ps[r];
      row.top_k = top_ks[r];
      row.key = keys[r];
      row.position = static_cast<std::uint64_t>(positions[r]);
      row.edits = edits.data() + edit_begins[r];
      row.num_edits = edit_counts[r];
      row.allowed = allowed_index[r] < 0 ? nullptr : masks.data();
      all.logprobs.push_back(0);
      all.tokens.push_back(mortise_sample_token(&row, scratch.data(), &all.logprobs.back()));
    }
    return all;
  }
};

void sampling_is_right(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    for (int round = 0; round < bench.subject.rounds(2); ++round) {
      const Sampling sampling(bench.random(), 40, 700);
      const Sampled expected = sampling.expected(), found = sampling.by_device(bench, 0, 40);
      for (std::size_t r = 0; r < expected.tokens.size(); ++r) {
        if (!bench.is_known && sampling.temperatures[r] > 0) continue;
        expect(found.tokens[r] == expected.tokens[r], "sample: row {} draws the token {}, expected {}", r,
               found.tokens[r], expected.tokens[r]);
        expect(!bench.is_known || mortise_bits_of(found.logprobs[r]) == mortise_bits_of(expected.logprobs[r]),
               "sample: the log probability of row {} is {}, expected {}", r, found.logprobs[r], expected.logprobs[r]);
      }
      for (std::int64_t r = 0; r < 40; r += 7) {
        const Sampled alone = sampling.by_device(bench, r, 1);
        expect(alone.tokens[0] == found.tokens[static_cast<std::size_t>(r)],
               "sample: row {} draws another token alone than among other rows", r);
      }
    }
  });
}

// --- shapes ---

void wrong_shapes_are_refused(Subject& subject) {
  in_each_type(subject, [](const Bench& bench) {
    const Product product(bench, 64, 32, false);
    const Norm norm(bench, false, 32, false);
    const DeviceMatrix wide(bench.device, zeros(bench.dtype, 4, 48)), right(bench.device, zeros(bench.dtype, 4, 32)),
        out(bench.device, zeros(bench.dtype, 4, 64)), short_out(bench.device, zeros(bench.dtype, 3, 64));
    const auto refused = [&](const char* what, const auto& call) {
      const Answer answer = bench.part.call(what, call);
      expect(answer.status == MORTISE_INVALID_ARGUMENT,
             "{} with shapes that do not fit together answers {}, expected INVALID_ARGUMENT", what, answer.text());
    };
    const auto& table = *bench.device.table;
    const auto linear = [&](const DeviceMatrix& x, const DeviceMatrix& to) {
      mortise_linear_args args{};
      args.struct_size = sizeof args;
      args.x = x.tensor();
      args.weight = product.weight.get();
      args.out = to.tensor();
      return [&table, &bench, args](mortise_error* error) {
        return table.linear(bench.device.device, nullptr, &args, error);
      };
    };
    refused("linear", linear(wide, out));
    refused("linear", linear(right, short_out));
    refused("linear", linear(right, wide));
    mortise_norm_args args{};
    args.struct_size = sizeof args;
    args.x = wide.tensor();
    args.weight = norm.weight_on.get();
    args.out = wide.tensor();
    refused("rms_norm",
            [&](mortise_error* error) { return table.rms_norm(bench.device.device, nullptr, &args, error); });
    refused("add", [&](mortise_error* error) {
      return table.add(bench.device.device, nullptr, wide.tensor(), right.tensor(), wide.tensor(), error);
    });
    refused("gated_activation", [&](mortise_error* error) {
      return table.gated_activation(bench.device.device, nullptr, MORTISE_ACT_SILU, wide.tensor(), right.tensor(),
                                    error);
    });
    refused("activation", [&](mortise_error* error) {
      return table.activation(bench.device.device, nullptr, 77, right.tensor(), right.tensor(), error);
    });
  });
}

constexpr Case kCases[] = {
    {"device.linear", "linear computes products, with and without a bias, in its type and in f32.", kOfDevice,
     linear_is_right, true},
    {"device.linear_rows", "linear: no bit of a row depends on the other rows.", kOfDevice, linear_rows_are_independent,
     true},
    {"device.linear_columns", "linear: column_begin and column_end change no bit.", kOfDevice,
     linear_columns_are_independent, true},
    {"device.linear_strides", "linear: rows may be strided.", kOfDevice, linear_takes_strided_rows, true},
    {"device.linear_parts", "linear: a weight may come in parts.", kOfDevice, linear_joins_parts, true},
    {"device.linear_gate", "linear with gate_activation equals linear and gated_activation.", kOfDevice, linear_gates,
     true},
    {"device.quantised", "linear with quantised weights is near the product, and its rows are independent.", kOfDevice,
     quantised_linear, true},
    {"device.embed", "embed copies rows of the table.", kOfDevice, embed_copies_rows, true},
    {"device.rms_norm", "rms_norm, with and without a residual, in place or not.", kOfDevice, rms_norm, true},
    {"device.layer_norm", "layer_norm, with and without a bias and a residual, in place or not.", kOfDevice, layer_norm,
     true},
    {"device.activations", "activation and gated_activation compute silu, both gelus and relu.", kOfDevice, activations,
     true},
    {"device.add", "add adds, in place or not.", kOfDevice, adds, true},
    {"device.rows", "gather_rows and scatter_rows move rows, and change no other.", kOfDevice, rows_are_moved, true},
    {"device.odd_numbers", "NaN and infinity in a row change no other row.", kOfDevice, odd_numbers_stay_in_their_row,
     true},
    {"device.head_reduce", "head_reduce gives log-sum-exp, targets, ranks and top tokens, at once or in slices.",
     kOfDevice, head_reduce_is_right, true},
    {"device.sample", "sample draws the token that edits, masks, filters and keyed noise ask for.", kOfDevice,
     sampling_is_right, true},
    {"device.wrong_shapes", "Shapes that do not fit together are refused with INVALID_ARGUMENT.", kOfDevice,
     wrong_shapes_are_refused},
};

}  // namespace

std::span<const Case> device_op_cases() {
  return kCases;
}

}  // namespace mortise::conformance
