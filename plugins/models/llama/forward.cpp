// plugins/models/llama/forward.cpp: the layers, as device operations in a fixed order.
//   x := norm(residual := embedding[ids])
//   per layer:  x := o(attention(qkv(x)));  residual += x, x := norm(residual)
//               x := down(silu(gate(x)) * up(x));  residual += x, x := norm(residual)   (the next layer's norm)
// The order depends on nothing but the configuration, and every operation treats each row on its own.
#include <string>

#include "models/llama/model.hpp"
#include "mortise/attention.h"

namespace mortise::llama {
namespace {

// The device's operations on the step's stream; a status becomes a Failure.
class Ops {
 public:
  explicit Ops(const mortise_step& step) : step_(step), table_(*step.device_table) {}

  void embed(const int32_t* ids, const mortise_weight* weight, const mortise_tensor& out) {
    check(table_.embed(step_.device, step_.stream, ids, weight, &out, &error_), error_);
  }

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

  void rms_norm(const mortise_tensor& x, const mortise_tensor* residual, const mortise_weight* weight, float eps,
                const mortise_tensor& out) {
    auto args = sized<mortise_norm_args>();
    args.x = &x;
    args.residual = residual;
    args.weight = weight;
    args.out = &out;
    args.eps = eps;
    check(table_.rms_norm(step_.device, step_.stream, &args, &error_), error_);
  }

  void silu_gate(const mortise_tensor& x, const mortise_tensor& out) {
    check(table_.gated_activation(step_.device, step_.stream, MORTISE_ACT_SILU, &x, &out, &error_), error_);
  }

 private:
  const mortise_step& step_;
  const mortise_device_table& table_;
  mortise_error error_ = make_error();
};

// Columns column .. column + num_heads * head_dim of a matrix, as [rows, num_heads, head_dim].
mortise_tensor heads_of(const mortise_tensor& matrix, int64_t column, int32_t num_heads, int32_t head_dim) {
  mortise_tensor tensor = matrix;
  const int64_t offset = column * dtype_bytes(matrix.dtype);
  tensor.data = static_cast<char*>(matrix.data) + offset;
  tensor.ndim = 3;
  tensor.shape[1] = num_heads;
  tensor.shape[2] = head_dim;
  tensor.stride[1] = head_dim;
  tensor.bytes = matrix.bytes - static_cast<uint64_t>(offset);
  return tensor;
}

}  // namespace

mortise_tensor Model::rows(const DeviceMemory& memory, int64_t num_rows, int64_t columns) const {
  mortise_tensor tensor = make_tensor(memory.get(), dims_.dtype, num_rows, columns);
  tensor.stride[0] = row_stride(columns);
  tensor.bytes = static_cast<uint64_t>(num_rows * tensor.stride[0] * dtype_bytes(dims_.dtype));
  return tensor;
}

mortise_tensor Model::forward(const mortise_step& step) {
  const auto batch = known(step.batch);
  const int32_t num_tokens = batch.num_tokens;
  if (num_tokens < 0 || num_tokens > max_batched_tokens_) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "forward",
                  "batch of " + std::to_string(num_tokens) + " rows; expected 0 to max_batched_tokens " +
                      std::to_string(max_batched_tokens_));
  }
  const mortise_tensor x = rows(buffers_.x, num_tokens, config_.hidden_size);
  if (num_tokens == 0) return x;

  Ops ops(step);
  const mortise_tensor residual = rows(buffers_.residual, num_tokens, config_.hidden_size);
  ops.embed(batch.device_token_ids, weights_.embedding.get(), residual);
  ops.rms_norm(residual, nullptr, weights_.layers.front().input_norm.get(), config_.norm_eps, x);
  for (int32_t i = 0; i < config_.num_layers; ++i) {
    const LayerWeights& layer = weights_.layers[i];
    const bool last = i + 1 == config_.num_layers;
    const Weight& next_norm = last ? weights_.final_norm : weights_.layers[i + 1].input_norm;
    run_attention(step, i, num_tokens);
    ops.rms_norm(x, &residual, layer.post_attention_norm.get(), config_.norm_eps, x);
    run_mlp(step, i, num_tokens);
    ops.rms_norm(x, &residual, next_norm.get(), config_.norm_eps, x);
  }
  return x;
}

void Model::run_attention(const mortise_step& step, int32_t index, int32_t num_tokens) {
  const LayerWeights& layer = weights_.layers[index];
  const mortise_tensor x = rows(buffers_.x, num_tokens, config_.hidden_size);
  const mortise_tensor qkv = rows(buffers_.qkv, num_tokens, config_.qkv_columns());
  const mortise_tensor mixed = rows(buffers_.attention, num_tokens, config_.q_columns());
  Ops ops(step);
  ops.linear(x, layer.qkv, qkv);

  const int64_t k_column = config_.q_columns();
  const mortise_tensor q = heads_of(qkv, 0, config_.num_heads, config_.head_dim);
  const mortise_tensor k = heads_of(qkv, k_column, config_.num_kv_heads, config_.head_dim);
  const mortise_tensor v = heads_of(qkv, k_column + config_.kv_columns(), config_.num_kv_heads, config_.head_dim);
  auto rope = sized<mortise_rope>();
  rope.cos = static_cast<const float*>(cos_.get());
  rope.sin = static_cast<const float*>(sin_.get());
  rope.rotary_dim = config_.head_dim;
  auto append = sized<mortise_append_args>();
  append.layer = index;
  append.q = &q;
  append.k = &k;
  append.v = &v;
  append.rope = &rope;
  append.q_norm = layer.q_norm.get();
  append.k_norm = layer.k_norm.get();
  append.norm_eps = config_.norm_eps;
  mortise_error error = make_error();
  const mortise_attention_table& attention = *step.attention_table;
  check(attention.append(step.attention, &step, &append, &error), error);
  const mortise_tensor out = heads_of(mixed, 0, config_.num_heads, config_.head_dim);
  check(attention.run(step.attention, &step, index, &q, &out, &error), error);

  ops.linear(mixed, layer.o, x);
}

void Model::run_mlp(const mortise_step& step, int32_t index, int32_t num_tokens) {
  const LayerWeights& layer = weights_.layers[index];
  const mortise_tensor x = rows(buffers_.x, num_tokens, config_.hidden_size);
  const mortise_tensor activated = rows(buffers_.activated, num_tokens, config_.intermediate_size);
  Ops ops(step);
  if (layer.gate_up.size() == 1) {
    ops.gated_linear(x, layer.gate_up.front(), activated);
  } else {
    const mortise_tensor gate_up = rows(buffers_.gate_up, num_tokens, 2 * config_.intermediate_size);
    ops.linear(x, layer.gate_up, gate_up);
    ops.silu_gate(gate_up, activated);
  }
  ops.linear(activated, layer.down, x);
}

void Model::head(const mortise_step& step, const mortise_tensor& hidden, int32_t vocab_begin, int32_t vocab_end,
                 const mortise_tensor& logits) {
  Ops(step).linear(hidden, weights_.head(), nullptr, logits, vocab_begin, vocab_end);
}

}  // namespace mortise::llama
