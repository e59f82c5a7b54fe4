#include "devices/checks/linear.hpp"

#include "devices/checks/matrix.hpp"
#include "mortise/plugin.hpp"

namespace mortise {
namespace {

constexpr char kWhere[] = "linear";
constexpr std::int64_t kColumnStep = 64;  // the ABI's ranges

void check_gated(const mortise_linear_args& args, const WeightShape& weight) {
  const mortise_tensor &x = *args.x, &out = *args.out;
  check_activation_code(args.gate_activation, kWhere);
  if (args.column_begin != 0 || args.column_end != 0 || weight.n % 2 != 0) {
    invalid(kWhere, "a gated product needs all columns of weight " + weight_text(weight) + ", half of them gates");
  }
  if (out.shape[0] != x.shape[0] || 2 * out.shape[1] != weight.n || out.dtype != x.dtype) {
    invalid(kWhere, "out " + matrix_text(out) + " does not fit x " + matrix_text(x) + " times weight " +
                        weight_text(weight) + ", half of it gates");
  }
}

ColumnRange checked_columns(const mortise_linear_args& args, const WeightShape& weight) {
  const mortise_tensor &x = *args.x, &out = *args.out;
  const bool all = args.column_begin == 0 && args.column_end == 0;
  const ColumnRange columns = {args.column_begin, all ? weight.n : args.column_end};
  if (columns.begin < 0 || columns.begin > columns.end || columns.end > weight.n || columns.begin % kColumnStep != 0 ||
      (columns.end % kColumnStep != 0 && columns.end != weight.n)) {
    invalid(kWhere, "columns " + std::to_string(args.column_begin) + " to " + std::to_string(args.column_end) +
                        " of weight " + weight_text(weight) + "; expected multiples of 64, or the end");
  }
  const std::int64_t count = columns.end - columns.begin;
  const bool dtype_fits = out.dtype == x.dtype || out.dtype == MORTISE_F32;
  if (out.shape[0] != x.shape[0] || out.shape[1] != count || !dtype_fits) {
    invalid(kWhere, "out " + matrix_text(out) + " does not fit x " + matrix_text(x) + " times " +
                        std::to_string(count) + " columns of weight " + weight_text(weight));
  }
  return columns;
}

}  // namespace

std::string weight_text(const WeightShape& weight) {
  const std::string packed =
      weight.bits == 0                       ? ""
      : weight.value_type == MORTISE_F8_E4M3 ? "fp8 for "
      : weight.value_type == MORTISE_F4_E2M1
          ? "mxfp4 for "
          : "int" + std::to_string(weight.bits) + (weight.value_type == MORTISE_I8_BLOCK32 ? "-block32 for " : " for ");
  return packed + matrix_text(weight.dtype, weight.n, weight.k);
}

ColumnRange check_linear(const mortise_linear_args& args, const WeightShape& weight, const WeightShape& bias) {
  check_matrix(args.x, kWhere, "x");
  check_matrix(args.out, kWhere, "out");
  if (weight.use == 0) invalid(kWhere, "weight is missing");
  if ((weight.use & MORTISE_WEIGHT_LINEAR) == 0) {
    invalid(kWhere, "weight " + weight_text(weight) + " was not prepared for linear");
  }
  if (bias.use != 0 && (bias.use != MORTISE_WEIGHT_VECTOR || bias.n != weight.n)) {
    invalid(kWhere, "bias " + weight_text(bias) + " does not fit weight " + weight_text(weight));
  }
  if (args.x->shape[1] != weight.k || args.x->dtype != weight.dtype) {
    invalid(kWhere, "x " + matrix_text(*args.x) + " does not fit weight " + weight_text(weight));
  }
  if (args.gate_activation == 0) return checked_columns(args, weight);
  check_gated(args, weight);
  return {0, weight.n};
}

}  // namespace mortise
