// plugins/models/llama/forward.cpp: the layers, as device operations in a fixed order.
//   x := norm(residual := embedding[ids])
//   per layer:  x := o(attention(qkv(x)));  residual += x, x := norm(residual)
//               x := down(silu(gate(x)) * up(x));  residual += x, x := norm(residual)   (the next layer's norm)
// The order depends on the configuration alone, and every operation treats each row separately. With several ranks each
// computes its columns of the embedding, of its heads and of every product, and gathers the others' before it goes on.
#include "models/common/model_options.hpp"
#include "models/llama/model.hpp"
#include "mortise/ops.hpp"

namespace mortise::llama {

mortise_tensor Model::forward(const mortise_step& step) {
  share_.ranks.check(step);
  const auto batch = known(step.batch);
  const int32_t num_tokens = models::checked_num_tokens(batch, max_batched_tokens_);
  const mortise_tensor x = buffers_.x.rows(num_tokens);
  if (num_tokens == 0) return x;

  Ops ops(step);
  const mortise_tensor residual = buffers_.residual.rows(num_tokens);
  ops.embed(batch.device_token_ids, weights_.embedding, ops.own_columns(residual));
  ops.gather(residual);
  ops.rms_norm(residual, nullptr, weights_.layers.front().input_norm, config_.norm_eps, x);
  for (int32_t i = 0; i < config_.num_layers; ++i) {
    const LayerWeights& layer = weights_.layers[i];
    const bool last = i + 1 == config_.num_layers;
    const Weight& next_norm = last ? weights_.final_norm : weights_.layers[i + 1].input_norm;
    run_attention(step, i, num_tokens);
    ops.rms_norm(x, &residual, layer.post_attention_norm, config_.norm_eps, x);
    run_mlp(step, i, num_tokens);
    ops.rms_norm(x, &residual, next_norm, config_.norm_eps, x);
  }
  return x;
}

void Model::run_attention(const mortise_step& step, int32_t index, int32_t num_tokens) {
  const LayerWeights& layer = weights_.layers[index];
  const mortise_tensor x = buffers_.x.rows(num_tokens);
  const mortise_tensor qkv = buffers_.qkv.rows(num_tokens);
  const mortise_tensor mixed = buffers_.attention.rows(num_tokens);
  Ops ops(step);
  ops.linear(x, layer.qkv, qkv);

  const int32_t head_dim = config_.head_dim, num_heads = share_.num_heads, num_kv_heads = share_.num_kv_heads;
  const int64_t k_column = int64_t{num_heads} * head_dim;
  const mortise_tensor q = heads_of(qkv, 0, num_heads, head_dim);
  const mortise_tensor k = heads_of(qkv, k_column, num_kv_heads, head_dim);
  const mortise_tensor v = heads_of(qkv, k_column + int64_t{num_kv_heads} * head_dim, num_kv_heads, head_dim);
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
  ops.attention(append, heads_of(ops.own_columns(mixed), 0, num_heads, head_dim));
  ops.gather(mixed);
  ops.linear(mixed, layer.o, ops.own_columns(x));
  ops.gather(x);
}

void Model::run_mlp(const mortise_step& step, int32_t index, int32_t num_tokens) {
  const LayerWeights& layer = weights_.layers[index];
  const mortise_tensor x = buffers_.x.rows(num_tokens);
  const mortise_tensor activated = buffers_.activated.rows(num_tokens);
  Ops ops(step);
  if (layer.gate_up.size() == 1) {
    ops.gated_linear(x, layer.gate_up.front(), ops.own_columns(activated));
  } else {
    const mortise_tensor gate_up = buffers_.gate_up.rows(num_tokens);
    ops.linear(x, layer.gate_up, gate_up);
    ops.silu_gate(gate_up, ops.own_columns(activated));
  }
  ops.gather(activated);
  ops.linear(activated, layer.down, ops.own_columns(x));
  ops.gather(x);
}

void Model::head(const mortise_step& step, const mortise_tensor& hidden, int32_t vocab_begin, int32_t vocab_end,
                 const mortise_tensor& logits) {
  models::run_head(step, share_.ranks, hidden, weights_.head(), config_.vocab_size, vocab_begin, vocab_end, logits);
}

}  // namespace mortise::llama
