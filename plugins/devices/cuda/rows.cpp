// Operations on single rows.
#include "kernels/cuda/rows.hpp"

#include "devices/checks/matrix.hpp"
#include "devices/checks/rows.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/matrix.hpp"
#include "devices/cuda/ops.hpp"

namespace mortise::cuda {
namespace {

const void* norm_vector(const mortise_weight* weight, const char* where, const char* name, const mortise_tensor& x) {
  if (weight->use != MORTISE_WEIGHT_VECTOR || weight->n != x.shape[1]) {
    invalid(where,
            std::string(name) + " of " + std::to_string(weight->n) + " elements does not fit x " + matrix_text(x));
  }
  return x.dtype == MORTISE_BF16 ? weight->data : weight->wide;
}

void norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args& in, const char* where, bool layer) {
  check_norm(in, where);
  const Matrix x = matrix_of(*in.x), out = matrix_of(*in.out);
  NormArgs args = {};
  if (in.residual != nullptr) args.residual = matrix_of(*in.residual).view();
  args.weight = norm_vector(in.weight, where, "weight", *in.x);
  if (in.bias != nullptr) args.bias = norm_vector(in.bias, where, "bias", *in.x);
  if (x.columns > device->most_norm_columns) {
    invalid(where, "x is " + matrix_text(*in.x) + "; this device norms rows of up to " +
                       std::to_string(device->most_norm_columns));
  }
  args.x = x.view();
  args.out = out.view();
  args.rows = x.rows;
  args.columns = x.columns;
  args.type = x.type();
  args.layer_norm = layer;
  args.eps = in.eps;
  if (device->recorder.is_open(stream_of(device, stream)) && args.type == ElementType::kBf16) {
    return device->recorder.add(args);
  }
  check_cuda(launch_norm(args, native(device, stream)), where);
}

}  // namespace

mortise_status embed(mortise_device* device, mortise_stream* stream, const int32_t* ids, const mortise_weight* weight,
                     const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "embed";
  return guard(error, kWhere, [&] {
    check_embed(ids, shape_of(weight), out_tensor);
    const Matrix out = matrix_of(*out_tensor);
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
    if (in.bias != nullptr) invalid("rms_norm", "rms_norm has no bias, but one is given");
    norm(device, stream, in, "rms_norm", /*layer=*/false);
  });
}

mortise_status layer_norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                          mortise_error* error) {
  return guard(error, "layer_norm", [&] { norm(device, stream, known(args), "layer_norm", /*layer=*/true); });
}

mortise_status gated_activation(mortise_device* device, mortise_stream* stream, int32_t activation,
                                const mortise_tensor* x_tensor, const mortise_tensor* out_tensor,
                                mortise_error* error) {
  constexpr char kWhere[] = "gated_activation";
  return guard(error, kWhere, [&] {
    check_gated_activation(activation, x_tensor, out_tensor);
    const Matrix x = matrix_of(*x_tensor), out = matrix_of(*out_tensor);
    const auto act = static_cast<Activation>(activation);
    check_cuda(launch_gated(act, x.type(), x.view(), out.view(), out.rows, out.columns, native(device, stream)),
               kWhere);
  });
}

mortise_status activation(mortise_device* device, mortise_stream* stream, int32_t activation,
                          const mortise_tensor* x_tensor, const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "activation";
  return guard(error, kWhere, [&] {
    check_activation(activation, x_tensor, out_tensor);
    const Matrix x = matrix_of(*x_tensor), out = matrix_of(*out_tensor);
    const auto act = static_cast<Activation>(activation);
    check_cuda(launch_activation(act, x.type(), x.view(), out.view(), x.rows, x.columns, native(device, stream)),
               kWhere);
  });
}

mortise_status add(mortise_device* device, mortise_stream* stream, const mortise_tensor* a_tensor,
                   const mortise_tensor* b_tensor, const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "add";
  return guard(error, kWhere, [&] {
    check_add(a_tensor, b_tensor, out_tensor);
    const Matrix a = matrix_of(*a_tensor), b = matrix_of(*b_tensor), out = matrix_of(*out_tensor);
    check_cuda(launch_add(a.type(), a.view(), b.view(), out.view(), a.rows, a.columns, native(device, stream)), kWhere);
  });
}

mortise_status gather_rows(mortise_device* device, mortise_stream* stream, const mortise_tensor* x_tensor,
                           const int32_t* rows, const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "gather_rows";
  return guard(error, kWhere, [&] {
    check_gather_rows(x_tensor, rows, out_tensor);
    const Matrix x = matrix_of(*x_tensor), out = matrix_of(*out_tensor);
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
    check_scatter_rows(x_tensor, rows, out_tensor);
    const Matrix x = matrix_of(*x_tensor), out = matrix_of(*out_tensor);
    check_cuda(launch_scatter({x.data, x.stride * x.element_bytes(), rows, out.data, out.stride * out.element_bytes(),
                               out.rows, x.rows, x.columns * x.element_bytes()},
                              native(device, stream)),
               kWhere);
  });
}

}  // namespace mortise::cuda
