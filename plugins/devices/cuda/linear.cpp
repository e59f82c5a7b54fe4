// linear: checks, and the gated product as two steps: the product into a workspace, then its activation. Which kernel
// multiplies quantised weights depends on the number of rows: integer sums are the same in both.
#include <algorithm>

#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/matrix.hpp"
#include "devices/cuda/ops.hpp"
#include "kernels/cuda/linear_int_stream.hpp"
#include "kernels/cuda/linear_int_wide.hpp"
#include "kernels/cuda/rows.hpp"

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "linear";
constexpr std::int64_t kColumnStep = 64;  // the ABI's ranges

std::string weight_text(const mortise_weight& weight) {
  const std::string dtype = weight.bits == 0 ? "bf16 [" : "int" + std::to_string(weight.bits) + " for bf16 [";
  return dtype + std::to_string(weight.n) + ", " + std::to_string(weight.k) + "]";
}

const mortise_weight& checked_weight(const mortise_weight* weight) {
  if (weight == nullptr) invalid(kWhere, "weight is missing");
  if ((weight->use & MORTISE_WEIGHT_LINEAR) == 0) {
    invalid(kWhere, "weight " + weight_text(*weight) + " was not prepared for linear");
  }
  return *weight;
}

Bias checked_bias(const mortise_weight* bias, const mortise_weight& weight, std::int64_t first) {
  if (bias == nullptr) return {};
  if (bias->use != MORTISE_WEIGHT_VECTOR || bias->n != weight.n) {
    invalid(kWhere, "bias " + weight_text(*bias) + " does not fit weight " + weight_text(weight));
  }
  return {static_cast<const std::uint16_t*>(bias->data) + first, bias->wide + first};
}

struct Columns {
  std::int64_t begin, end;
};

Columns checked_columns(const mortise_linear_args& args, const Matrix& x, const Matrix& out,
                        const mortise_weight& weight) {
  const bool all = args.column_begin == 0 && args.column_end == 0;
  const Columns columns = {args.column_begin, all ? weight.n : args.column_end};
  if (columns.begin < 0 || columns.begin > columns.end || columns.end > weight.n || columns.begin % kColumnStep != 0 ||
      (columns.end % kColumnStep != 0 && columns.end != weight.n)) {
    invalid(kWhere, "columns " + std::to_string(args.column_begin) + " to " + std::to_string(args.column_end) +
                        " of weight " + weight_text(weight) + "; expected multiples of 64, or the end");
  }
  if (out.rows != x.rows || out.columns != columns.end - columns.begin) {
    invalid(kWhere, "out " + shape_text(out) + " does not fit x " + shape_text(x) + " times " +
                        std::to_string(columns.end - columns.begin) + " columns of weight " + weight_text(weight));
  }
  return columns;
}

void check_gated(const mortise_linear_args& args, const Matrix& x, const Matrix& out, const mortise_weight& weight) {
  if (args.column_begin != 0 || args.column_end != 0 || weight.n % 2 != 0) {
    invalid(kWhere, "a gated product takes all columns of weight " + weight_text(weight) + ", half of them gates");
  }
  if (out.rows != x.rows || 2 * out.columns != weight.n || out.dtype != x.dtype) {
    invalid(kWhere, "out " + shape_text(out) + " does not fit x " + shape_text(x) + " times weight " +
                        weight_text(weight) + ", half of it gates");
  }
}

LinearArgs product(const Matrix& x, const mortise_weight& weight, Columns columns, const Bias& bias,
                   const Matrix& out) {
  LinearArgs args = {};
  args.x = reinterpret_cast<const std::uint16_t*>(x.data);
  args.x_stride = x.stride;
  args.w = static_cast<const std::uint16_t*>(weight.data) + columns.begin * weight.k;
  args.w_stride = weight.k;
  args.bias = bias.f32;
  args.y = out.data;
  args.y_stride = out.stride;
  args.y_type = out.type();
  args.m = x.rows;
  args.n = columns.end - columns.begin;
  args.k = weight.k;
  return args;
}

LinearIntArgs int_product(const Matrix& x, const mortise_weight& weight, Columns columns, const Bias& bias,
                          const Matrix& out) {
  LinearIntArgs args = {};
  args.x = reinterpret_cast<const std::uint16_t*>(x.data);
  args.x_stride = x.stride;
  args.order = weight.order;
  args.w = static_cast<const std::byte*>(weight.data);
  args.format = weight.format();
  args.symmetric = weight.symmetric;
  args.bias = bias.f32;
  args.y = out.data;
  args.y_stride = out.stride;
  args.y_type = out.type();
  args.m = x.rows;
  args.first_column = columns.begin;
  args.n = columns.end - columns.begin;
  return args;
}

void multiply(mortise_device& device, const Matrix& x, const mortise_weight& weight, Columns columns, const Bias& bias,
              const Matrix& out, cudaStream_t on) {
  if (weight.bits == 0) return device.linear->run(product(x, weight, columns, bias, out), bias, on);
  const LinearIntArgs args = int_product(x, weight, columns, bias, out);
  if (args.m == 0 || args.n == 0) return;
  const bool streams = streams_int(args);
  const std::uint64_t bytes = streams ? stream_int_workspace_bytes(args) : wide_int_workspace_bytes(args);
  void* const workspace = device.quantised.reserve(bytes, on, kWhere);
  check_cuda((streams ? launch_linear_int_stream : launch_linear_int_wide)(args, workspace, on), kWhere);
}

}  // namespace

mortise_status linear(mortise_device* device, mortise_stream* stream, const mortise_linear_args* args,
                      mortise_error* error) {
  return guard(error, kWhere, [&] {
    const auto in = known(args);
    const Matrix x = as_matrix(in.x, kWhere, "x"), out = as_matrix(in.out, kWhere, "out");
    const mortise_weight& weight = checked_weight(in.weight);
    if (x.columns != weight.k || x.dtype != MORTISE_BF16) {
      invalid(kWhere, "x " + shape_text(x) + " does not fit weight " + weight_text(weight));
    }
    const cudaStream_t on = native(device, stream);
    if (in.gate_activation == 0) {
      const Columns columns = checked_columns(in, x, out, weight);
      const Bias bias = checked_bias(in.bias, weight, columns.begin);
      multiply(*device, x, weight, columns, bias, out, on);
      return;
    }
    const Activation activation = checked_activation(in.gate_activation, kWhere);
    check_gated(in, x, out, weight);
    if (x.rows == 0) return;
    const Bias bias = checked_bias(in.bias, weight, 0);
    const auto bytes = static_cast<std::uint64_t>(x.rows * weight.n * x.element_bytes());
    const Matrix both = {static_cast<std::byte*>(device->gated.reserve(bytes, on, kWhere)), x.dtype, x.rows, weight.n,
                         weight.n};
    multiply(*device, x, weight, {0, weight.n}, bias, both, on);
    check_cuda(launch_gated(activation, out.type(), both.view(), out.view(), out.rows, out.columns, on), kWhere);
  });
}

}  // namespace mortise::cuda
