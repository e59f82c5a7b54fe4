// mortise/ops.hpp: the device's operations on a step's stream, with references and owners in place of argument structs
// and statuses. Not part of the ABI: compiled into the plugin, like plugin.hpp. C++20. Since 0.3. device.h says what
// each operation does.
#pragma once

#include <vector>

#include "mortise/attention.h"
#include "mortise/ext/collective.h"
#include "mortise/weights.hpp"

namespace mortise {

// Borrows a step for one forward or propose call, for the thread of that call. Each function queues its operation on
// the step's stream, or throws a Failure if the device refuses it. Invariant: keeps no tensor.
class Ops {
 public:
  explicit Ops(const mortise_step& step) : step_(step), table_(*step.device_table) {}

  // out[m] = row ids[m] of the weight; ids in device memory.
  void embed(const int32_t* ids, const Weight& weight, const mortise_tensor& out) {
    check(table_.embed(step_.device, step_.stream, ids, weight.get(), &out, &error_), error_);
  }

  // out = x w^T + bias. `bias` may be null. If column_end is not 0, only the outputs column_begin .. column_end - 1.
  void linear(const mortise_tensor& x, const mortise_weight* weight, const mortise_weight* bias,
              const mortise_tensor& out, int32_t column_begin = 0, int32_t column_end = 0) {
    auto args = sized<mortise_linear_args>();
    args.x = &x;
    args.weight = weight;
    args.bias = bias;
    args.out = &out;
    args.column_begin = column_begin;
    args.column_end = column_end;
    check(table_.linear(step_.device, step_.stream, &args, &error_), error_);
  }

  // The outputs of all pieces, side by side in `out`.
  void linear(const mortise_tensor& x, const Linear& pieces, const mortise_tensor& out) {
    if (pieces.size() == 1) return linear(x, pieces[0].weight.get(), pieces[0].bias.get(), out);
    int64_t column = 0;
    for (const Piece& piece : pieces) {
      mortise_tensor columns = out;
      const int64_t offset = column * dtype_bytes(out.dtype);
      columns.data = static_cast<char*>(out.data) + offset;
      columns.shape[1] = piece.columns;
      columns.bytes = out.bytes - static_cast<uint64_t>(offset);
      linear(x, piece.weight.get(), piece.bias.get(), columns);
      column += piece.columns;
    }
  }

  // out = silu(x gate) * (x up)
  void gated_linear(const mortise_tensor& x, const Piece& gate_up, const mortise_tensor& out) {
    auto args = sized<mortise_linear_args>();
    args.x = &x;
    args.weight = gate_up.weight.get();
    args.bias = gate_up.bias.get();
    args.out = &out;
    args.gate_activation = MORTISE_ACT_SILU;
    check(table_.linear(step_.device, step_.stream, &args, &error_), error_);
  }

  // With `residual`: first residual += x, then the norm of residual in place of x.
  void rms_norm(const mortise_tensor& x, const mortise_tensor* residual, const Weight& weight, float eps,
                const mortise_tensor& out) {
    const mortise_norm_args args = norm_args(x, residual, weight, eps, out);
    check(table_.rms_norm(step_.device, step_.stream, &args, &error_), error_);
  }
  void layer_norm(const mortise_tensor& x, const mortise_tensor* residual, const Weight& weight, const Weight& bias,
                  float eps, const mortise_tensor& out) {
    mortise_norm_args args = norm_args(x, residual, weight, eps, out);
    args.bias = bias.get();
    check(table_.layer_norm(step_.device, step_.stream, &args, &error_), error_);
  }

  // out[m, n] = silu(x[m, n]) * x[m, N + n], for out [M, N].
  void silu_gate(const mortise_tensor& x, const mortise_tensor& out) {
    check(table_.gated_activation(step_.device, step_.stream, MORTISE_ACT_SILU, &x, &out, &error_), error_);
  }
  // x = act(x), for one of MORTISE_ACT_*.
  void activate(int32_t activation, const mortise_tensor& x) {
    check(table_.activation(step_.device, step_.stream, activation, &x, &x, &error_), error_);
  }
  // out = a + b
  void add(const mortise_tensor& a, const mortise_tensor& b, const mortise_tensor& out) {
    check(table_.add(step_.device, step_.stream, &a, &b, &out, &error_), error_);
  }

  // Of `x`, the columns that this rank computes if the ranks divide them evenly: all of them, if there is one rank.
  // REQUIRES: the number of columns is a multiple of the step's world.
  mortise_tensor own_columns(const mortise_tensor& x) const {
    if (step_.world <= 1) return x;
    mortise_tensor own = x;
    own.shape[1] = x.shape[1] / step_.world;
    const int64_t offset = own.shape[1] * step_.rank * dtype_bytes(x.dtype);
    own.data = static_cast<char*>(x.data) + offset;
    own.bytes -= static_cast<uint64_t>(offset);
    return own;
  }
  // Completes `x`, of which each rank has its own_columns(): afterwards all ranks have all columns.
  void gather(const mortise_tensor& x) {
    if (step_.world <= 1) return;
    std::vector<int64_t> columns;
    for (int64_t rank = 0; rank <= step_.world; ++rank) columns.push_back(x.shape[1] * rank / step_.world);
    gather(x, columns);
  }
  // The same for columns of any division: rank r has columns[r] .. columns[r + 1] - 1.
  void gather(const mortise_tensor& x, const std::vector<int64_t>& columns) {
    check(step_.collective->all_gather(step_.communicator, step_.stream, &x, columns.data(), &error_), error_);
  }

  // Writes K and V of the step's rows to the cache, then computes out, the attention of the rows.
  void attention(const mortise_append_args& append, const mortise_tensor& out) {
    const mortise_attention_table& table = *step_.attention_table;
    check(table.append(step_.attention, &step_, &append, &error_), error_);
    check(table.run(step_.attention, &step_, append.layer, append.q, &out, &error_), error_);
  }

 private:
  static mortise_norm_args norm_args(const mortise_tensor& x, const mortise_tensor* residual, const Weight& weight,
                                     float eps, const mortise_tensor& out) {
    auto args = sized<mortise_norm_args>();
    args.x = &x;
    args.residual = residual;
    args.weight = weight.get();
    args.out = &out;
    args.eps = eps;
    return args;
  }

  const mortise_step& step_;
  const mortise_device_table& table_;
  mortise_error error_ = make_error();
};

}  // namespace mortise
