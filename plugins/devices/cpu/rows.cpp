// Operations on single rows. Threads divide the rows if there is enough work.
#include <algorithm>
#include <cstring>

#include "devices/checks/matrix.hpp"
#include "devices/checks/rows.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/matrix.hpp"
#include "devices/cpu/ops.hpp"
#include "kernels/cpu/linear/pack.hpp"

namespace mortise::cpu {
namespace {

// Elements that a thread computes in the time it takes to wake another thread.
constexpr std::size_t kTaskElements = 16384;

// Calls f(first row, end row) until all `rows` are covered.
template <typename F>
void over_rows(mortise_device& device, std::size_t rows, std::size_t columns, F f) {
  const std::size_t wanted = rows * columns / kTaskElements;
  const auto most = static_cast<std::size_t>(device.pool.num_threads()) * 2;
  const std::size_t tasks = std::max<std::size_t>(1, std::min({wanted, most, rows}));
  device.pool.for_each(static_cast<std::int32_t>(tasks), [&](std::int32_t task, std::int32_t) {
    const auto i = static_cast<std::size_t>(task);
    f(rows * i / tasks, rows * (i + 1) / tasks);
  });
}

// Calls f(pointers ..., elements) for the rows [m0, m1): once when all matrices are dense, else row by row.
template <typename T, typename F, typename... Matrices>
void over_elements(std::size_t m0, std::size_t m1, F f, const Matrix& first, const Matrices&... others) {
  if (first.dense() && (others.dense() && ...)) {
    f(first.row_of<T>(m0), others.template row_of<T>(m0)..., (m1 - m0) * first.columns);
    return;
  }
  for (std::size_t m = m0; m < m1; ++m) f(first.row_of<T>(m), others.template row_of<T>(m)..., first.columns);
}

const void* norm_vector(const mortise_weight* weight, const char* where, const char* name, const mortise_tensor& x) {
  if (weight->use != MORTISE_WEIGHT_VECTOR || weight->n != x.shape[1] || weight->dtype != x.dtype) {
    invalid(where,
            std::string(name) + " of " + std::to_string(weight->n) + " elements does not fit x " + matrix_text(x));
  }
  return x.dtype == MORTISE_BF16 ? static_cast<const void*>(weight->vector_bf16()) : weight->vector();
}

using NormKernel = void (*)(const NormArgs& args, std::size_t m0, std::size_t m1);

void norm(mortise_device& device, const mortise_norm_args& in, const char* where, NormKernel bf16, NormKernel f32) {
  check_norm(in, where);
  const Matrix x = matrix_of(*in.x), out = matrix_of(*in.out);
  NormArgs args = {};
  if (in.residual != nullptr) {
    const Matrix residual = matrix_of(*in.residual);
    args.residual = residual.data;
    args.residual_stride = residual.stride;
  }
  args.weight = norm_vector(in.weight, where, "weight", *in.x);
  if (in.bias != nullptr) args.bias = norm_vector(in.bias, where, "bias", *in.x);
  args.x = x.data;
  args.x_stride = x.stride;
  args.out = out.data;
  args.out_stride = out.stride;
  args.columns = x.columns;
  args.eps = in.eps;
  const NormKernel kernel = x.dtype == MORTISE_BF16 ? bf16 : f32;
  over_rows(device, x.rows, x.columns, [&](std::size_t m0, std::size_t m1) { kernel(args, m0, m1); });
}

// Checks ids, because a wrong id would read foreign memory. The check costs nothing beside the copy.
void check_ids(const int32_t* ids, std::size_t count, std::size_t rows, const char* where, const char* name) {
  for (std::size_t i = 0; i < count; ++i) {
    if (ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < rows) continue;
    invalid(where, std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(ids[i]) + "; expected 0 to " +
                       std::to_string(static_cast<std::int64_t>(rows) - 1));
  }
}

}  // namespace

mortise_status embed(mortise_device* device, mortise_stream*, const int32_t* ids, const mortise_weight* weight,
                     const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "embed";
  return guard(error, kWhere, [&] {
    check_embed(ids, shape_of(weight), out_tensor);
    const Matrix out = matrix_of(*out_tensor);
    check_ids(ids, out.rows, static_cast<std::size_t>(weight->n), kWhere, "ids");
    const auto k = static_cast<std::size_t>(weight->k);
    const std::size_t row_bytes = out.row_bytes();
    over_rows(*device, out.rows, out.columns, [&](std::size_t m0, std::size_t m1) {
      for (std::size_t m = m0; m < m1; ++m) {
        const auto id = static_cast<std::size_t>(ids[m]);
        if (!weight->packed) {
          std::memcpy(out.row(m), static_cast<const std::byte*>(weight->data) + id * row_bytes, row_bytes);
        } else if (weight->dtype == MORTISE_BF16) {
          unpack_row_bf16(weight->data, k, id, out.row_of<Bf16>(m));
        } else {
          unpack_row_f32(weight->data, k, id, out.row_of<float>(m));
        }
      }
    });
  });
}

mortise_status rms_norm(mortise_device* device, mortise_stream*, const mortise_norm_args* args, mortise_error* error) {
  return guard(error, "rms_norm", [&] {
    const NormKernels& kernels = device->kernels.norm;
    const auto in = known(args);
    if (in.bias != nullptr) invalid("rms_norm", "rms_norm has no bias, but one is given");
    norm(*device, in, "rms_norm", kernels.rms_norm_bf16, kernels.rms_norm_f32);
  });
}

mortise_status layer_norm(mortise_device* device, mortise_stream*, const mortise_norm_args* args,
                          mortise_error* error) {
  return guard(error, "layer_norm", [&] {
    const NormKernels& kernels = device->kernels.norm;
    norm(*device, known(args), "layer_norm", kernels.layer_norm_bf16, kernels.layer_norm_f32);
  });
}

mortise_status gated_activation(mortise_device* device, mortise_stream*, int32_t activation,
                                const mortise_tensor* x_tensor, const mortise_tensor* out_tensor,
                                mortise_error* error) {
  return guard(error, "gated_activation", [&] {
    check_gated_activation(activation, x_tensor, out_tensor);
    const Matrix x = matrix_of(*x_tensor), out = matrix_of(*out_tensor);
    const auto act = static_cast<Activation>(activation);
    const ActivationKernels& kernels = device->kernels.activation;
    over_rows(*device, out.rows, out.columns, [&](std::size_t m0, std::size_t m1) {
      for (std::size_t m = m0; m < m1; ++m) {
        if (x.dtype == MORTISE_BF16) {
          const Bf16* gate = x.row_of<Bf16>(m);
          kernels.gated_bf16(act, gate, gate + out.columns, out.row_of<Bf16>(m), out.columns);
        } else {
          const float* gate = x.row_of<float>(m);
          kernels.gated_f32(act, gate, gate + out.columns, out.row_of<float>(m), out.columns);
        }
      }
    });
  });
}

mortise_status activation(mortise_device* device, mortise_stream*, int32_t activation, const mortise_tensor* x_tensor,
                          const mortise_tensor* out_tensor, mortise_error* error) {
  return guard(error, "activation", [&] {
    check_activation(activation, x_tensor, out_tensor);
    const Matrix x = matrix_of(*x_tensor), out = matrix_of(*out_tensor);
    const auto act = static_cast<Activation>(activation);
    const ActivationKernels& kernels = device->kernels.activation;
    over_rows(*device, x.rows, x.columns, [&](std::size_t m0, std::size_t m1) {
      const auto apply_bf16 = [&](const Bf16* in, Bf16* to, std::size_t n) { kernels.apply_bf16(act, in, to, n); };
      const auto apply_f32 = [&](const float* in, float* to, std::size_t n) { kernels.apply_f32(act, in, to, n); };
      x.dtype == MORTISE_BF16 ? over_elements<Bf16>(m0, m1, apply_bf16, x, out)
                              : over_elements<float>(m0, m1, apply_f32, x, out);
    });
  });
}

mortise_status add(mortise_device* device, mortise_stream*, const mortise_tensor* a_tensor,
                   const mortise_tensor* b_tensor, const mortise_tensor* out_tensor, mortise_error* error) {
  return guard(error, "add", [&] {
    check_add(a_tensor, b_tensor, out_tensor);
    const Matrix a = matrix_of(*a_tensor), b = matrix_of(*b_tensor), out = matrix_of(*out_tensor);
    const ElementwiseKernels& kernels = device->kernels.elementwise;
    over_rows(*device, a.rows, a.columns, [&](std::size_t m0, std::size_t m1) {
      a.dtype == MORTISE_BF16 ? over_elements<Bf16>(m0, m1, kernels.add_bf16, a, b, out)
                              : over_elements<float>(m0, m1, kernels.add_f32, a, b, out);
    });
  });
}

mortise_status gather_rows(mortise_device* device, mortise_stream*, const mortise_tensor* x_tensor, const int32_t* rows,
                           const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "gather_rows";
  return guard(error, kWhere, [&] {
    check_gather_rows(x_tensor, rows, out_tensor);
    const Matrix x = matrix_of(*x_tensor), out = matrix_of(*out_tensor);
    check_ids(rows, out.rows, x.rows, kWhere, "rows");
    over_rows(*device, out.rows, out.columns, [&](std::size_t m0, std::size_t m1) {
      for (std::size_t m = m0; m < m1; ++m) {
        std::memcpy(out.row(m), x.row(static_cast<std::size_t>(rows[m])), out.row_bytes());
      }
    });
  });
}

mortise_status scatter_rows(mortise_device* device, mortise_stream*, const mortise_tensor* x_tensor,
                            const int32_t* rows, const mortise_tensor* out_tensor, mortise_error* error) {
  constexpr char kWhere[] = "scatter_rows";
  return guard(error, kWhere, [&] {
    check_scatter_rows(x_tensor, rows, out_tensor);
    const Matrix x = matrix_of(*x_tensor), out = matrix_of(*out_tensor);
    check_ids(rows, x.rows, out.rows, kWhere, "rows");
    over_rows(*device, x.rows, x.columns, [&](std::size_t m0, std::size_t m1) {
      for (std::size_t m = m0; m < m1; ++m) {
        std::memcpy(out.row(static_cast<std::size_t>(rows[m])), x.row(m), x.row_bytes());
      }
    });
  });
}

}  // namespace mortise::cpu
