#include "devices/checks/rows.hpp"

#include "devices/checks/matrix.hpp"
#include "mortise/plugin.hpp"

namespace mortise {
namespace {

// Checks an operation that moves whole rows from x to out, as many as one of the two has.
void check_moved_rows(const mortise_tensor* x, const std::int32_t* rows, const mortise_tensor* out,
                      const mortise_tensor* counted, const char* where) {
  check_matrix(x, where, "x");
  check_matrix(out, where, "out");
  if (x->dtype != out->dtype || x->shape[1] != out->shape[1]) {
    invalid(where,
            "x is " + matrix_text(*x) + ", out is " + matrix_text(*out) + "; rows must have the same type and length");
  }
  if (counted->shape[0] > 0 && rows == nullptr) invalid(where, "rows is missing");
}

}  // namespace

void check_embed(const std::int32_t* ids, const WeightShape& weight, const mortise_tensor* out) {
  constexpr char kWhere[] = "embed";
  check_matrix(out, kWhere, "out");
  if ((weight.use & MORTISE_WEIGHT_EMBEDDING) == 0) invalid(kWhere, "the weight was not prepared as an embedding");
  if (out->shape[1] != weight.k || out->dtype != weight.dtype) {
    invalid(kWhere, "out " + matrix_text(*out) + " does not fit rows of " + std::to_string(weight.k) + " elements");
  }
  if (out->shape[0] > 0 && ids == nullptr) invalid(kWhere, "ids is missing");
}

void check_norm(const mortise_norm_args& args, const char* where) {
  check_matrix(args.x, where, "x");
  check_matrix(args.out, where, "out");
  require_same(where, "x", *args.x, "out", *args.out);
  if (args.residual != nullptr) {
    check_matrix(args.residual, where, "residual");
    require_same(where, "x", *args.x, "residual", *args.residual);
  }
  if (args.weight == nullptr) invalid(where, "weight is missing");
}

void check_gated_activation(std::int32_t activation, const mortise_tensor* x, const mortise_tensor* out) {
  constexpr char kWhere[] = "gated_activation";
  check_matrix(x, kWhere, "x");
  check_matrix(out, kWhere, "out");
  check_activation_code(activation, kWhere);
  if (x->dtype != out->dtype || x->shape[0] != out->shape[0] || x->shape[1] != 2 * out->shape[1]) {
    invalid(kWhere, "x is " + matrix_text(*x) + ", out is " + matrix_text(*out) + "; x must have twice out's columns");
  }
}

void check_activation(std::int32_t activation, const mortise_tensor* x, const mortise_tensor* out) {
  constexpr char kWhere[] = "activation";
  check_matrix(x, kWhere, "x");
  check_matrix(out, kWhere, "out");
  check_activation_code(activation, kWhere);
  require_same(kWhere, "x", *x, "out", *out);
}

void check_add(const mortise_tensor* a, const mortise_tensor* b, const mortise_tensor* out) {
  constexpr char kWhere[] = "add";
  check_matrix(a, kWhere, "a");
  check_matrix(b, kWhere, "b");
  check_matrix(out, kWhere, "out");
  require_same(kWhere, "a", *a, "b", *b);
  require_same(kWhere, "a", *a, "out", *out);
}

void check_gather_rows(const mortise_tensor* x, const std::int32_t* rows, const mortise_tensor* out) {
  check_moved_rows(x, rows, out, /*counted=*/out, "gather_rows");
}

void check_scatter_rows(const mortise_tensor* x, const std::int32_t* rows, const mortise_tensor* out) {
  check_moved_rows(x, rows, out, /*counted=*/x, "scatter_rows");
}

}  // namespace mortise
