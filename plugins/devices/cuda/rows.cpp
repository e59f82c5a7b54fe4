// The operations that treat rows one by one.
#include "kernels/cuda/rows.hpp"

#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/matrix.hpp"
#include "devices/cuda/ops.hpp"

namespace mortise::cuda {
namespace {

const void* norm_vector(const mortise_weight* weight, const char* where, const char* name, const Matrix& x) {
  if (weight->use != MORTISE_WEIGHT_VECTOR || weight->n != x.columns) {
    invalid(where,
            std::string(name) + " of " + std::to_string(weight->n) + " elements does not fit x " + shape_text(x));
  }
  return x.dtype == MORTISE_BF16 ? weight->data : weight->wide;
}

void norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args& in, const char* where, bool layer) {
  const Matrix x = as_matrix(in.x, where, "x"), out = as_matrix(in.out, where, "out");
  require_same(where, "x", x, "out", out);
  NormArgs args = {};
  if (in.residual != nullptr) {
    const Matrix residual = as_matrix(in.residual, where, "residual");
    require_same(where, "x", x, "residual", residual);
    args.residual = residual.view();
  }
  if (in.weight == nullptr) invalid(where, "weight is missing");
  args.weight = norm_vector(in.weight, where, "weight", x);
  if (in.bias != nullptr) args.bias = norm_vector(in.bias, where, "bias", x);
  if (x.columns > kMaxNormColumns) {
    invalid(where, "x is " + shape_text(x) + "; this device norms rows of up to " + std::to_string(kMaxNormColumns));
  }
  args.x = x.view();
  args.out = out.view();
  args.rows = x.rows;
  args.columns = x.columns;
  args.type = x.type();
  args.layer_norm = layer;
  args.eps = in.eps;
  check_cuda(launch_norm(args, native(device, stream)), where);
}

}  // namespace

mortise_status embed(mortise_device* device, mortise_stream* stream, const int32_t* ids, const mortise_weight* weight,
                     const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "embed";
  return guard(error, kWhere, [&] {
    const Matrix out = as_matrix(out_tensor, kWhere, "out");
    if (weight == nullptr || (weight->use & MORTISE_WEIGHT_EMBEDDING) == 0) {
      invalid(kWhere, "the weight was not prepared as an embedding");
    }
    if (out.columns != weight->k || out.dtype != MORTISE_BF16) {
      invalid(kWhere, "out " + shape_text(out) + " does not fit rows of " + std::to_string(weight->k) + " elements");
    }
    if (out.rows > 0 && ids == nullptr) invalid(kWhere, "ids is missing");
    const std::int64_t row_bytes = out.columns * out.element_bytes();
    check_cuda(launch_gather({static_cast<const std::byte*>(weight->data), row_bytes, weight->n, ids, out.data,
                              out.stride * out.element_bytes(), out.rows, row_bytes},
                             native(device, stream)),
               kWhere);
  });
}

mortise_status rms_norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                        mortise_error* error) {
  return guard(error, "rms_norm", [&] {
    const auto in = known(args);
    if (in.bias != nullptr) invalid("rms_norm", "bias is given; rms_norm has none");
    norm(device, stream, in, "rms_norm", false);
  });
}

mortise_status layer_norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                          mortise_error* error) {
  return guard(error, "layer_norm", [&] { norm(device, stream, known(args), "layer_norm", true); });
}

mortise_status gated_activation(mortise_device* device, mortise_stream* stream, int32_t activation,
                                const mortise_tensor* x_tensor, const mortise_tensor* out_tensor,
                                mortise_error* error) {
  constexpr char kWhere[] = "gated_activation";
  return guard(error, kWhere, [&] {
    const Matrix x = as_matrix(x_tensor, kWhere, "x"), out = as_matrix(out_tensor, kWhere, "out");
    const Activation act = checked_activation(activation, kWhere);
    if (x.dtype != out.dtype || x.rows != out.rows || x.columns != 2 * out.columns) {
      invalid(kWhere, "x is " + shape_text(x) + ", out is " + shape_text(out) + "; x must have twice out's columns");
    }
    check_cuda(launch_gated(act, x.type(), x.view(), out.view(), out.rows, out.columns, native(device, stream)),
               kWhere);
  });
}

mortise_status activation(mortise_device* device, mortise_stream* stream, int32_t activation,
                          const mortise_tensor* x_tensor, const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "activation";
  return guard(error, kWhere, [&] {
    const Matrix x = as_matrix(x_tensor, kWhere, "x"), out = as_matrix(out_tensor, kWhere, "out");
    const Activation act = checked_activation(activation, kWhere);
    require_same(kWhere, "x", x, "out", out);
    check_cuda(launch_activation(act, x.type(), x.view(), out.view(), x.rows, x.columns, native(device, stream)),
               kWhere);
  });
}

mortise_status add(mortise_device* device, mortise_stream* stream, const mortise_tensor* a_tensor,
                   const mortise_tensor* b_tensor, const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "add";
  return guard(error, kWhere, [&] {
    const Matrix a = as_matrix(a_tensor, kWhere, "a"), b = as_matrix(b_tensor, kWhere, "b");
    const Matrix out = as_matrix(out_tensor, kWhere, "out");
    require_same(kWhere, "a", a, "b", b);
    require_same(kWhere, "a", a, "out", out);
    check_cuda(launch_add(a.type(), a.view(), b.view(), out.view(), a.rows, a.columns, native(device, stream)), kWhere);
  });
}

namespace {

struct TwoMatrices {
  Matrix x, out;
};

// Rows that go from one to the other, whole.
TwoMatrices alike(const mortise_tensor* x_tensor, const mortise_tensor* out_tensor, const char* where) {
  const Matrix x = as_matrix(x_tensor, where, "x"), out = as_matrix(out_tensor, where, "out");
  if (x.dtype != out.dtype || x.columns != out.columns) {
    invalid(where, "x is " + shape_text(x) + ", out is " + shape_text(out) + "; rows must be alike");
  }
  return {x, out};
}

}  // namespace

mortise_status gather_rows(mortise_device* device, mortise_stream* stream, const mortise_tensor* x_tensor,
                           const int32_t* rows, const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "gather_rows";
  return guard(error, kWhere, [&] {
    const auto [x, out] = alike(x_tensor, out_tensor, kWhere);
    if (out.rows > 0 && rows == nullptr) invalid(kWhere, "rows is missing");
    check_cuda(launch_gather({x.data, x.stride * x.element_bytes(), x.rows, rows, out.data,
                              out.stride * out.element_bytes(), out.rows, out.columns * out.element_bytes()},
                             native(device, stream)),
               kWhere);
  });
}

mortise_status scatter_rows(mortise_device* device, mortise_stream* stream, const mortise_tensor* x_tensor,
                            const int32_t* rows, const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "scatter_rows";
  return guard(error, kWhere, [&] {
    const auto [x, out] = alike(x_tensor, out_tensor, kWhere);
    if (x.rows > 0 && rows == nullptr) invalid(kWhere, "rows is missing");
    check_cuda(launch_scatter({x.data, x.stride * x.element_bytes(), rows, out.data, out.stride * out.element_bytes(),
                               out.rows, x.rows, x.columns * x.element_bytes()},
                              native(device, stream)),
               kWhere);
  });
}

}  // namespace mortise::cuda
