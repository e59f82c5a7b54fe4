// runtime/conformance/device_row_cases.cpp: rules of operations on rows (device_bench.hpp says how they are judged).
#include <algorithm>

#include "conformance/device_bench.hpp"
#include "sampling/denormals_off.hpp"

namespace mortise::conformance {
namespace {

void embed_copies_rows(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
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

enum class NormKind { kRms, kLayer, kLayerWithBias };
enum class NormOut { kOfItsOwn, kIsX };  // where a norm writes its rows

// rms_norm or layer_norm of x. With `residual`, first residual := residual + x, and then the norm of residual.
struct Norm {
  const DeviceBench& bench;
  bool is_layer_norm;
  Matrix weight, bias;
  DeviceWeight weight_on, bias_on;

  Norm(const DeviceBench& bench, NormKind kind, std::int64_t n)
      : bench(bench), is_layer_norm(kind != NormKind::kRms), weight(bench.draw(1, n)), bias(bench.draw(1, n)) {
    weight_on = prepare_vector(bench.device, weight);
    if (kind == NormKind::kLayerWithBias) bias_on = prepare_vector(bench.device, bias);
  }
  Matrix operator()(const Matrix& x, Matrix* residual = nullptr, NormOut where = NormOut::kOfItsOwn) const {
    const bool in_place = where == NormOut::kIsX;
    const DeviceMatrix in(bench.device, x), out(bench.device, zeros(bench.dtype, x.rows, x.columns));
    const DeviceMatrix sum(bench.device, residual == nullptr ? x : *residual);
    mortise_norm_args args{};
    args.struct_size = sizeof args;
    args.x = in.tensor();
    args.residual = residual == nullptr ? nullptr : sum.tensor();
    args.weight = weight_on.get();
    args.bias = bias_on.get();
    args.out = in_place ? in.tensor() : out.tensor();
    args.eps = kDeviceEps;
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
        mortise_layer_norm(bench.bf16(), x.row(r), weight.row(0), bias_on == nullptr ? nullptr : bias.row(0),
                           kDeviceEps, x.columns, y.row(r));
      } else {
        mortise_rms_norm(bench.bf16(), x.row(r), weight.row(0), kDeviceEps, x.columns, y.row(r));
      }
    }
    return y;
  }
};

Matrix rounded_sum(const DeviceBench& bench, const Matrix& a, const Matrix& b) {
  const DenormalsOff denormals_off;
  Matrix sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] = mortise_round(a.values[i] + b.values[i], bench.bf16());
  }
  return sum;
}

void norms_are_right(const DeviceBench& bench, const std::vector<NormKind>& kinds) {
  const char* const name = kinds[0] == NormKind::kRms ? "rms_norm" : "layer_norm";
  for (const std::int64_t n : {1, 16, 33, 200, 1000}) {
    for (const NormKind kind : kinds) {
      const Norm norm(bench, kind, n);
      const Matrix x = bench.draw(17, n, 3);
      const Matrix found = norm(x);
      expect_like(bench, norm.expected(x), found, name);
      expect_equal(found, norm(x, nullptr, NormOut::kIsX), "a norm gives different bits when out is x");
      Matrix residual = bench.draw(17, n, 3);
      const Matrix sum = rounded_sum(bench, x, residual);
      expect_like(bench, norm.expected(sum), norm(x, &residual), "a norm with a residual");
      expect_like(bench, sum, residual, "the residual of a norm");
      const auto compute = [&](const Matrix& some) { return norm(some); };
      expect_independent(bench, x, found, compute, "a norm: a row changes with the other rows");
    }
  }
}
void rms_norm(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) { norms_are_right(bench, {NormKind::kRms}); });
}
void layer_norm(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    norms_are_right(bench, {NormKind::kLayer, NormKind::kLayerWithBias});
  });
}

void activations(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
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
  in_each_type(subject, [](const DeviceBench& bench) {
    for (const std::int64_t n : {1, 40, 257}) {
      const Matrix a = bench.draw(6, n, 100), b = bench.draw(6, n);
      const DeviceMatrix left(bench.device, a), right(bench.device, b), out(bench.device, zeros(bench.dtype, 6, n));
      for (const auto* target : {out.tensor(), left.tensor()}) {
        bench.run("add", [&](const auto& table, auto* device, mortise_error* error) {
          return table.add(device, nullptr, left.tensor(), right.tensor(), target, error);
        });
      }
      expect_like(bench, rounded_sum(bench, a, b), out.read(), "add");
      expect_like(bench, rounded_sum(bench, a, b), left.read(), "add in place");
    }
  });
}

void rows_are_moved(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
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
void norms_keep_odd_numbers_in_their_row(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const Norm norm(bench, NormKind::kRms, 64);
    const Matrix sound = bench.draw(9, 64);
    Matrix x = sound;
    x.row(4)[10] = MORTISE_NAN;
    x.row(6)[3] = MORTISE_INFINITY;
    const std::vector<std::int64_t> others = {0, 1, 2, 3, 5, 7, 8};
    expect_equal(norm(sound).rows_at(others), norm(x).rows_at(others),
                 "rms_norm: NaN or infinity in a row changes another row");
  });
}

void wrong_shapes_are_refused(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const Norm norm(bench, NormKind::kRms, 32);
    const DeviceMatrix wide(bench.device, zeros(bench.dtype, 4, 48)), right(bench.device, zeros(bench.dtype, 4, 32));
    const auto& [device, table, perform] = bench.device;
    mortise_norm_args args{};
    args.struct_size = sizeof args;
    args.x = wide.tensor();
    args.weight = norm.weight_on.get();
    args.out = wide.tensor();
    expect_refused(bench, "rms_norm", [&, device = device, table = table](mortise_error* error) {
      return table->rms_norm(device, nullptr, &args, error);
    });
    expect_refused(bench, "add", [&, device = device, table = table](mortise_error* error) {
      return table->add(device, nullptr, wide.tensor(), right.tensor(), wide.tensor(), error);
    });
    expect_refused(bench, "gated_activation", [&, device = device, table = table](mortise_error* error) {
      return table->gated_activation(device, nullptr, MORTISE_ACT_SILU, wide.tensor(), right.tensor(), error);
    });
    expect_refused(bench, "activation", [&, device = device, table = table](mortise_error* error) {
      return table->activation(device, nullptr, 77, right.tensor(), right.tensor(), error);
    });
  });
}

constexpr Case kDeviceRowCases[] = {
    {"device.embed", "embed copies rows of the table.", kOfDevice, embed_copies_rows, true},
    {"device.rms_norm", "rms_norm, with and without a residual, in place or not.", kOfDevice, rms_norm, true},
    {"device.layer_norm", "layer_norm, with and without a bias and a residual, in place or not.", kOfDevice, layer_norm,
     true},
    {"device.activations", "activation and gated_activation compute silu, both gelus and relu.", kOfDevice, activations,
     true},
    {"device.add", "add adds, in place or not.", kOfDevice, adds, true},
    {"device.rows", "gather_rows and scatter_rows move rows, and change no other.", kOfDevice, rows_are_moved, true},
    {"device.norm_nan", "rms_norm: NaN and infinity in a row change no other row.", kOfDevice,
     norms_keep_odd_numbers_in_their_row, true},
    {"device.row_shapes", "Operations on rows refuse shapes that do not fit together with INVALID_ARGUMENT.", kOfDevice,
     wrong_shapes_are_refused},
};

}  // namespace

std::span<const Case> device_row_cases() {
  return kDeviceRowCases;
}

}  // namespace mortise::conformance
