// runtime/conformance/device_linear_cases.cpp: rules of products (device_bench.hpp says how they are judged).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "conformance/device_bench.hpp"
#include "sampling/denormals_off.hpp"

namespace mortise::conformance {
namespace {

struct LinearProduct {
  const DeviceBench& bench;
  Matrix w, bias;
  DeviceWeight weight, bias_weight;

  LinearProduct(const DeviceBench& bench, std::int64_t n, std::int64_t k, bool has_bias)
      : bench(bench), w(bench.draw(n, k)), bias(bench.draw(1, n)) {
    weight = prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {w});
    if (has_bias) bias_weight = prepare_vector(bench.device, bias);
  }
  // If `end` is 0, computes all columns.
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
        float sum = mortise_dot_in(bench.order, x.row(m), w.row(n), w.columns);
        if (bias_weight != nullptr) sum = sum + bias.row(0)[n];
        y.row(m)[n] = mortise_round(sum, out_dtype == MORTISE_BF16);
      }
    }
    return y;
  }
};

void linear_is_right(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const struct {
      std::int64_t m, n, k;
    } shapes[] = {{1, 64, 32}, {3, 100, 64}, {7, 64, 100}, {40, 192, 256}, {130, 70, 31}};
    for (const auto& [m, n, k] : shapes) {
      for (const bool has_bias : {false, true}) {
        const LinearProduct product(bench, n, k, has_bias);
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
  in_each_type(subject, [](const DeviceBench& bench) {
    for (const std::int64_t k : {64, 320, 1024}) {
      const LinearProduct product(bench, 192, k, true);
      const Matrix x = bench.draw(70, k);
      const auto compute = [&](const Matrix& some) { return product(some, bench.dtype); };
      expect_independent(bench, x, compute(x), compute, "linear: a row changes with the other rows");
    }
  });
}

void linear_columns_are_independent(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const LinearProduct product(bench, 200, 128, true);
    const Matrix x = bench.draw(9, 128), whole = product(x, MORTISE_F32);
    for (const auto& [begin, end] : {std::pair(0, 64), std::pair(64, 192), std::pair(128, 200)}) {
      Matrix expected = zeros(MORTISE_F32, x.rows, end - begin);
      for (std::int64_t r = 0; r < x.rows; ++r) std::copy_n(whole.row(r) + begin, end - begin, expected.row(r));
      expect_equal(expected, product(x, MORTISE_F32, begin, end), "linear: a column changes with column_begin");
    }
  });
}

void linear_takes_strided_rows(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const LinearProduct product(bench, 128, 96, false);
    const Matrix x = bench.draw(20, 96);
    expect_equal(product(x, bench.dtype), product(x, bench.dtype, 0, 0, 64), "linear: a row changes with the stride");
  });
}

void linear_joins_parts(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const LinearProduct whole(bench, 192, 64, false);
    LinearProduct joined = whole;
    joined.weight =
        prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {whole.w.rows_at({0, 1, 2, 3, 4, 5, 6, 7}), [&] {
                                                                       std::vector<std::int64_t> rest(184);
                                                                       std::iota(rest.begin(), rest.end(), 8);
                                                                       return whole.w.rows_at(rest);
                                                                     }()});
    const Matrix x = bench.draw(5, 64);
    expect_equal(whole(x, bench.dtype), joined(x, bench.dtype), "linear: a weight of two parts gives different bits");
  });
}

void linear_gates(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const LinearProduct product(bench, 256, 64, false);
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

// Products with weights in fewer bits are near the exact product, and their rows are independent.
void quantized_linear(Subject& subject) {
  int num_forms = 0;
  in_each_type(subject, [&](const DeviceBench& bench) {
    const WeightForm forms[] = {{MORTISE_WEIGHT_LINEAR, bench.dtype, 8, 0, 0},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 8, 64, 0},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 4, 64, 0},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 8, 0, MORTISE_F8_E4M3},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 8, 32, MORTISE_I8_BLOCK32},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 4, 32, MORTISE_I8_BLOCK32},
                                {MORTISE_WEIGHT_LINEAR, bench.dtype, 4, 32, MORTISE_F4_E2M1}};
    for (const WeightForm& form : forms) {
      const std::int32_t asked = form.value_type == 0 ? MORTISE_I8 : form.value_type;
      if (bench.device.table->numerics_id(bench.device.device, asked) == nullptr) continue;
      ++num_forms;
      LinearProduct product(bench, 128, 256, false);
      product.weight = prepare(bench.device, form, {product.w});
      const Matrix x = bench.draw(33, 256);
      const auto compute = [&](const Matrix& some) { return product(some, bench.dtype); };
      const Matrix found = compute(x);
      // The error of a step of the weights, of numbers in [-1, 1], over 256 products. MXFP4 ends at 0.75 if no weight
      // is 1.
      const double step = form.value_type == MORTISE_F4_E2M1   ? 1.0 / 4
                          : form.bits == 4                     ? 1.0 / 8
                          : form.value_type == MORTISE_F8_E4M3 ? 1.0 / 16
                                                               : 1.0 / 128;
      expect_close(product.expected(x, bench.dtype), found, 16 * step + 0.1, "linear with quantised weights");
      expect_independent(bench, x, found, compute, "linear with quantised weights: a row changes with the other rows");
    }
  });
  if (num_forms == 0) throw NotApplicable("it has no linear with quantised weights");
}

// One row has a NaN, another one an infinity. A NaN that is stored is the canonical one; only linear of cuda-bf16/1,
// which is the only linear that numerics.h leaves out, may store any NaN (docs/numerics.md, "Linear on CUDA").
void linear_keeps_odd_numbers_in_their_row(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const LinearProduct product(bench, 64, 64, false);
    const Matrix sound = bench.draw(9, 64);
    Matrix x = sound;
    x.row(4)[10] = MORTISE_NAN;
    x.row(6)[3] = MORTISE_INFINITY;
    const std::vector<std::int64_t> others = {0, 1, 2, 3, 5, 7, 8};
    const Matrix products = product(x, bench.dtype);
    expect_equal(product(sound, bench.dtype).rows_at(others), products.rows_at(others),
                 "linear: NaN or infinity in a row changes another row");
    const Matrix found = products.rows_at({4});
    if (bench.is_known && !bench.has_known_linear) {
      expect(std::ranges::all_of(found.values, [](float y) { return std::isnan(y); }),
             "linear: a row with NaN has products that are numbers");
      return;
    }
    Matrix nan = zeros(bench.dtype, 1, 64);
    std::ranges::fill(nan.values, MORTISE_NAN);
    expect_equal(nan, found, "linear: a row with NaN is not the canonical NaN");
  });
}

void linear_refuses_wrong_shapes(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const LinearProduct product(bench, 64, 32, false);
    const DeviceMatrix wide(bench.device, zeros(bench.dtype, 4, 48)), right(bench.device, zeros(bench.dtype, 4, 32)),
        out(bench.device, zeros(bench.dtype, 4, 64)), short_out(bench.device, zeros(bench.dtype, 3, 64));
    for (const auto& [x, to] : {std::pair(&wide, &out), std::pair(&right, &short_out), std::pair(&right, &wide)}) {
      mortise_linear_args args{};
      args.struct_size = sizeof args;
      args.x = x->tensor();
      args.weight = product.weight.get();
      args.out = to->tensor();
      expect_refused(bench, "linear", [&](mortise_error* error) {
        return bench.device.table->linear(bench.device.device, nullptr, &args, error);
      });
    }
  });
}

constexpr Case kDeviceLinearCases[] = {
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
    {"device.linear_nan", "linear: NaN and infinity in a row change no other row.", kOfDevice,
     linear_keeps_odd_numbers_in_their_row, true},
    {"device.linear_shapes", "linear refuses shapes that do not fit together with INVALID_ARGUMENT.", kOfDevice,
     linear_refuses_wrong_shapes},
    {"device.quantised", "linear with quantised weights approximates the product, and its rows are independent.",
     kOfDevice, quantized_linear, true},
};

}  // namespace

std::span<const Case> device_linear_cases() {
  return kDeviceLinearCases;
}

}  // namespace mortise::conformance
