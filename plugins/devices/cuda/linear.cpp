// linear: checks the arguments and calls the kernels. A gated product is a product into a workspace, followed by its
// activation; in bf16 it is one kernel for many rows, and for up to eight rows of small matrices. For quantised weights
// (integers, E4M3, MXFP4) the number of rows decides between kernels with equal bits.
#include <algorithm>

#include "devices/checks/linear.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/matrix.hpp"
#include "devices/cuda/ops.hpp"
#include "kernels/cuda/linear_fp8_many.hpp"
#include "kernels/cuda/linear_fp8_mma.hpp"
#include "kernels/cuda/linear_fp8_stream.hpp"
#include "kernels/cuda/linear_fp8_widened.hpp"
#include "kernels/cuda/linear_gated.hpp"
#include "kernels/cuda/linear_int4_many.hpp"
#include "kernels/cuda/linear_int4_stream.hpp"
#include "kernels/cuda/linear_int4_widened.hpp"
#include "kernels/cuda/linear_int_mma.hpp"
#include "kernels/cuda/linear_int_stream.hpp"
#include "kernels/cuda/linear_int_wide.hpp"
#include "kernels/cuda/linear_mxfp4_mma.hpp"
#include "kernels/cuda/linear_mxfp4_widened.hpp"
#include "kernels/cuda/linear_stream.hpp"
#include "kernels/cuda/linear_wide.hpp"
#include "kernels/cuda/mxfp4_pack.hpp"
#include "kernels/cuda/rows.hpp"
#include "kernels/cuda/tensor_map.hpp"

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "linear";
// Up to this many rows linear_int_stream is faster than linear_int4_widened, and linear_fp8_widened faster than
// linear_fp8_stream (H100, products of an 8B model).
constexpr std::int64_t kFewIntRows = 4, kFewFp8Rows = 8;
// With more rows weights are widened in memory first, which then is faster than linear_wide (H100, products of an 8B
// model): E4M3 weights with a scale for each row, those with scales of groups, and MXFP4 weights.
constexpr std::int64_t kMaxFp8WideRows = 2048, kMaxFp8GroupsWideRows = 1024, kMaxMxfp4WideRows = 2048;
// Gated products of up to eight rows are one kernel if the weights have fewer bytes. With more it gains nothing: while
// the activation's own kernel runs, memory is busy with the next weights. (Batch 1, H100: the demo model's 0.9 MiB a
// layer save 13 us a step, 9 MiB of the shape 68m cost 3, 224 MiB of 8b cost up to 1 %.)
constexpr std::int64_t kMaxGatedBytes = std::int64_t{4} << 20;
// MXFP4 weights are widened in memory at most so many bytes at a time, which stay in the L2.
constexpr std::int64_t kMaxWidenedMxfp4Bytes = std::int64_t{64} << 20;
constexpr std::int64_t kWidenedStep = 64;  // of columns

bool uses_mma(const mortise_device& device) {
  return device.gpu.kernels == KernelSet::kMma;
}

Bias bias_of(const mortise_weight* bias, std::int64_t first) {
  if (bias == nullptr) return {};
  return {static_cast<const std::uint16_t*>(bias->data) + first, bias->wide + first};
}

LinearArgs product(const Matrix& x, const mortise_weight& weight, const ColumnRange& columns, const Bias& bias,
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

LinearIntArgs int_product(const Matrix& x, const mortise_weight& weight, const ColumnRange& columns, const Bias& bias,
                          const Matrix& out) {
  LinearIntArgs args = {};
  args.x = reinterpret_cast<const std::uint16_t*>(x.data);
  args.x_stride = x.stride;
  args.order = weight.order;
  args.w = static_cast<const std::byte*>(weight.data);
  args.format = weight.format();
  args.symmetric = weight.symmetric;
  args.usual_scales = weight.usual_scales;
  args.bias = bias.f32;
  args.y = out.data;
  args.y_stride = out.stride;
  args.y_type = out.type();
  args.m = x.rows;
  args.first_column = columns.begin;
  args.n = columns.end - columns.begin;
  return args;
}

// TMA and cp.async need rows of x that begin at multiples of 16 bytes; other matrices are copied first.
template <class Args>
void align_rows(mortise_device& device, Args& args, std::int64_t k, cudaStream_t on) {
  if (reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0 && args.x_stride % 8 == 0) return;
  const std::int64_t stride = (k + 7) / 8 * 8;
  const auto pitch = static_cast<std::size_t>(stride) * sizeof(std::uint16_t);
  void* const rows = device.quantized.reserve(pitch * static_cast<std::size_t>(args.m), on, kWhere);
  check_cuda(cudaMemcpy2DAsync(rows, pitch, args.x, static_cast<std::size_t>(args.x_stride) * sizeof(std::uint16_t),
                               static_cast<std::size_t>(k) * sizeof(std::uint16_t), static_cast<std::size_t>(args.m),
                               cudaMemcpyDeviceToDevice, on),
             kWhere);
  args.x = static_cast<const std::uint16_t*>(rows);
  args.x_stride = stride;
}

// Many rows: widens columns part by part into two workspaces in turn, each while the part before is multiplied.
void multiply_widened_fp8(mortise_device& device, const LinearFp8Args& args, cudaStream_t on) {
  int multiprocessors = 0;
  check_cuda(num_multiprocessors(multiprocessors), kWhere);
  const std::int64_t each = fp8_many_part(args, multiprocessors);
  const std::int64_t bytes = widened_fp8_bytes(std::min(each, args.n), args.format.k);
  auto* const widened =
      static_cast<std::byte*>(device.widened.reserve(static_cast<std::uint64_t>(2 * bytes), on, kWhere));
  const auto part_at = [&](std::int64_t column) {
    LinearFp8Args part = args;
    part.first_column += column;
    part.n = std::min(each, args.n - column);
    if (args.bias != nullptr) part.bias += column;
    part.y = static_cast<std::byte*>(args.y) + column * element_bytes(args.y_type);
    return part;
  };
  const auto place_of = [&](std::int64_t column) { return widened + column / each % 2 * bytes; };
  check_cuda(launch_widen_fp8(fp8_widening(part_at(0), place_of(0)), on), kWhere);
  for (std::int64_t column = 0; column < args.n; column += each) {
    const std::int64_t after = column + each;
    const Fp8Widening next = after < args.n ? fp8_widening(part_at(after), place_of(after)) : Fp8Widening{};
    check_cuda(launch_linear_fp8_many(part_at(column), place_of(column), next, on), kWhere);
  }
}

void multiply_fp8(mortise_device& device, const Matrix& x, const mortise_weight& weight, const ColumnRange& columns,
                  const Bias& bias, const Matrix& out, cudaStream_t on) {
  LinearFp8Args args = {};
  args.x = reinterpret_cast<const std::uint16_t*>(x.data);
  args.x_stride = x.stride;
  args.w = static_cast<const std::byte*>(weight.data);
  args.format = weight.fp8_format();
  args.bias = bias.f32;
  args.y = out.data;
  args.y_stride = out.stride;
  args.y_type = out.type();
  args.m = x.rows;
  args.first_column = columns.begin;
  args.n = columns.end - columns.begin;
  if (args.m == 0 || args.n == 0) return;
  align_rows(device, args, args.format.k, on);
  const std::int64_t most = args.format.grouped ? kMaxFp8GroupsWideRows : kMaxFp8WideRows;
  if (!uses_mma(device) && args.m > most) return multiply_widened_fp8(device, args, on);
  const bool streams = args.m > kFewFp8Rows && args.m <= kMaxFp8StreamRows;
  const auto launch = uses_mma(device)               ? launch_linear_fp8_mma
                      : streams                      ? launch_linear_fp8_stream
                      : args.m <= kMaxFp8WidenedRows ? launch_linear_fp8_widened
                                                     : launch_linear_fp8_wide;
  check_cuda(launch(args, on), kWhere);
}

// Many rows: widens as many columns as the workspace takes, and multiplies by them as by bf16 weights.
void multiply_widened_mxfp4(mortise_device& device, LinearMxfp4Args args, const Bias& bias, cudaStream_t on) {
  const std::int64_t row_bytes = args.k * static_cast<std::int64_t>(sizeof(std::uint16_t));
  const std::int64_t most = std::max(kMaxWidenedMxfp4Bytes / row_bytes / kWidenedStep, std::int64_t{1}) * kWidenedStep;
  const std::int64_t parts = (args.n + most - 1) / most, n = args.n;
  const std::int64_t each = ((n + parts - 1) / parts + kWidenedStep - 1) / kWidenedStep * kWidenedStep;
  auto* const widened = static_cast<std::uint16_t*>(
      device.widened.reserve(static_cast<std::uint64_t>(std::min(each, n) * row_bytes), on, kWhere));
  auto* const y = static_cast<std::byte*>(args.y);
  const std::int64_t first = args.first_column;
  for (std::int64_t column = 0; column < n; column += each) {
    args.first_column = first + column;
    args.n = std::min(each, n - column);
    check_cuda(launch_widen_mxfp4(args, widened, on), kWhere);
    const Bias part = {bias.bf16 == nullptr ? nullptr : static_cast<const std::uint16_t*>(bias.bf16) + column,
                       bias.f32 == nullptr ? nullptr : bias.f32 + column};
    const LinearArgs product = {
        args.x,        args.x_stride, widened, args.k, part.f32, y + column * element_bytes(args.y_type),
        args.y_stride, args.y_type,   args.m,  args.n, args.k};
    device.linear->run(product, part, on);
  }
}

void multiply_mxfp4(mortise_device& device, const Matrix& x, const mortise_weight& weight, const ColumnRange& columns,
                    const Bias& bias, const Matrix& out, cudaStream_t on) {
  LinearMxfp4Args args = {};
  args.x = reinterpret_cast<const std::uint16_t*>(x.data);
  args.x_stride = x.stride;
  args.w = static_cast<const std::byte*>(weight.data);
  args.bias = bias.f32;
  args.y = out.data;
  args.y_stride = out.stride;
  args.y_type = out.type();
  args.m = x.rows;
  args.first_column = columns.begin;
  args.n = columns.end - columns.begin;
  args.k = weight.k;
  args.small = weight.small_scales;
  if (args.m == 0 || args.n == 0) return;
  if (!uses_mma(device) && args.m > kMaxMxfp4WideRows) return multiply_widened_mxfp4(device, args, bias, on);
  align_rows(device, args, args.k, on);
  const auto launch = uses_mma(device)              ? launch_linear_mxfp4_mma
                      : args.m <= kMxfp4WidenedRows ? launch_linear_mxfp4_widened
                                                    : launch_linear_mxfp4_wide;
  check_cuda(launch(args, on), kWhere);
}

void multiply(mortise_device& device, const Matrix& x, const mortise_weight& weight, const ColumnRange& columns,
              const Bias& bias, const Matrix& out, cudaStream_t on) {
  if (weight.bits == 0) {
    const LinearArgs args = product(x, weight, columns, bias, out);
    if (uses_mma(device)) return check_cuda(launch_linear_mma(args, on), kWhere);
    return device.linear->run(args, bias, on);
  }
  if (weight.value_type == MORTISE_F8_E4M3) return multiply_fp8(device, x, weight, columns, bias, out, on);
  if (weight.value_type == MORTISE_F4_E2M1) return multiply_mxfp4(device, x, weight, columns, bias, out, on);
  const LinearIntArgs args = int_product(x, weight, columns, bias, out);
  if (args.m == 0 || args.n == 0) return;
  const auto multiply_by = [&](const auto& workspace_bytes, const auto& launch) {
    check_cuda(launch(args, device.quantized.reserve(workspace_bytes(args), on, kWhere), on), kWhere);
  };
  const bool widens = widens_int4(args);
  if (uses_mma(device)) {
    multiply_by(mma_int_workspace_bytes, launch_linear_int_mma);
  } else if (streams_int4(args)) {
    multiply_by(stream_int4_workspace_bytes, launch_linear_int4_stream);
  } else if (streams_int(args) && !(widens && args.m > kFewIntRows)) {
    multiply_by(stream_int_workspace_bytes, launch_linear_int_stream);
  } else if (widens) {
    multiply_by(widened_int4_workspace_bytes, launch_linear_int4_widened);
  } else if (is_many_int4(args)) {
    multiply_by(many_int4_workspace_bytes, launch_linear_int4_many);
  } else {
    multiply_by(wide_int_workspace_bytes, launch_linear_int_wide);
  }
}

// Whether a gated product is one kernel of linear_stream.
bool streams_as_one_kernel(const LinearArgs& both) {
  return both.m > 0 && both.n * both.k * 2 <= kMaxGatedBytes && streams_gated(both);
}

// Whether the recorder may take a product by the weight.
bool records(const mortise_device& device, mortise_stream* stream, const mortise_weight& weight) {
  return weight.bits == 0 && device.recorder.is_open(stream_of(&device, stream));
}

// Whether the recorder may take a product that is not gated: one of linear_stream, as LinearPlans would choose.
bool waits_for_next(const LinearArgs& args) {
  return args.m > 0 && args.n > 0 && args.y_type == ElementType::kBf16 && LinearPlans::is_streamed(args);
}

}  // namespace

mortise_status linear(mortise_device* device, mortise_stream* stream, const mortise_linear_args* args,
                      mortise_error* error) {
  return guard(error, kWhere, [&] {
    const auto in = known(args);
    const ColumnRange columns = check_linear(in, shape_of(in.weight), shape_of(in.bias));
    const Matrix x = matrix_of(*in.x), out = matrix_of(*in.out);
    const mortise_weight& weight = *in.weight;
    const Bias bias = bias_of(in.bias, columns.begin);
    if (records(*device, stream, weight)) {
      const LinearArgs args = product(x, weight, columns, bias, out);
      const auto activation = static_cast<Activation>(in.gate_activation);
      if (in.gate_activation == 0 && waits_for_next(args)) return device->recorder.add(args);
      if (in.gate_activation != 0 && streams_as_one_kernel(args)) return device->recorder.add(args, activation);
    }
    const cudaStream_t on = native(device, stream);
    if (in.gate_activation == 0) return multiply(*device, x, weight, columns, bias, out, on);
    if (x.rows == 0) return;
    const auto activation = static_cast<Activation>(in.gate_activation);
    if (weight.bits == 0 && !uses_mma(*device)) {
      const LinearArgs both = product(x, weight, columns, bias, out);
      if (streams_as_one_kernel(both)) return check_cuda(launch_gated_stream(both, activation, on), kWhere);
      if (serves_linear_gated(both)) return check_cuda(launch_linear_gated(both, activation, on), kWhere);
    }
    const auto bytes = static_cast<std::uint64_t>(x.rows * weight.n * x.element_bytes());
    const Matrix both = {static_cast<std::byte*>(device->gated.reserve(bytes, on, kWhere)), x.dtype, x.rows, weight.n,
                         weight.n};
    multiply(*device, x, weight, columns, bias, both, on);
    check_cuda(launch_gated(activation, out.type(), both.view(), out.view(), out.rows, out.columns, on), kWhere);
  });
}

}  // namespace mortise::cuda
