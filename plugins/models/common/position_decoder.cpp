#include "models/common/position_decoder.hpp"

#include <algorithm>
#include <cmath>

#include "mortise/ops.hpp"

namespace mortise::models {

DecoderConfig shared_config(const ConfigSection& config, const char* default_activation) {
  DecoderConfig out;
  out.activation = activation_of(config, "activation_function", default_activation);
  out.tied_embeddings = config.boolean("tie_word_embeddings", true);
  out.checkpoint_dtype = checkpoint_dtype(config);
  out.quantization = checkpoint_quantization(config);
  return out;
}

float usual_scale(int32_t head_dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

PositionDecoder::PositionDecoder(const mortise_create_args& args, const DecoderConfig& config,
                                 const DecoderNames& names)
    : device_{args.device, args.device_table},
      config_(config),
      names_(names),
      share_(RankShare::of(args, {{"the number of heads", config.num_heads},
                                  {"hidden_size", config.hidden_size},
                                  {"the size of the embedding", config.embedding_size},
                                  {"the intermediate size", config.intermediate_size}})) {
  dims_ = sized<mortise_model_dims>();
  dims_.num_layers = config_.num_layers;
  dims_.hidden_size = config_.embedding_size;  // width of the rows that the head reads
  dims_.num_heads = dims_.num_kv_heads = share_.share(config_.num_heads);
  dims_.head_dim = config_.head_dim;
  dims_.vocab_size = config_.vocab_size;
  dims_.attention_scale = config_.attention_scale;
  format_ = apply_options(Options(args), device_, config_.checkpoint_dtype, config_.quantization, config_.max_positions,
                          dims_);
}

void PositionDecoder::load(const mortise_weight_reader& reader) {
  require_numerics(device_, dims_);
  weights_ = load_weights(WeightLoader(format_, device_, reader, names_.layout));
}

PositionDecoder::Weights PositionDecoder::load_weights(const WeightLoader& loader) const {
  const auto named = [&](const char* prefix) { return loader.has(std::string(prefix) + names_.embedding); };
  const auto found = std::find_if(names_.prefixes.begin(), names_.prefixes.end(), named);
  const std::string prefix = found == names_.prefixes.end() ? names_.prefixes.front() : *found;

  const CheckpointTensor embedding = {prefix + names_.embedding, config_.vocab_size};
  const bool shared =
      config_.tied_embeddings && share_.world == 1 && loader.embedding_is_head(embedding, config_.embedding_size);
  if (config_.tied_embeddings) loader.require_tied(embedding, config_.embedding_size);
  Weights weights;
  weights.embedding = loader.embedding(embedding, config_.embedding_size, shared, share_.rank, share_.world);
  const CheckpointTensor positions = {prefix + names_.positions, config_.max_positions + names_.skipped_positions,
                                      names_.skipped_positions};
  weights.positions = loader.embedding(positions, config_.hidden_size, /*also_head=*/false, share_.rank, share_.world);
  if (projected()) {
    weights.project_in = loader.linear({share_.rows(prefix + names_.project_in, config_.hidden_size)},
                                       config_.embedding_size, /*with_bias=*/false);
    weights.project_out =
        loader.linear({share_.rows(prefix + names_.project_out, config_.embedding_size)}, config_.hidden_size,
                      /*with_bias=*/false);
  }
  for (int32_t i = 0; i < config_.num_layers; ++i) {
    weights.layers.push_back(load_layer(loader, prefix + names_.layers + std::to_string(i) + "."));
  }
  if (config_.final_norm) weights.final_norm = load_norm(loader, prefix + names_.final_norm);
  if (shared) return weights;
  const std::string head = config_.tied_embeddings ? embedding.name : "lm_head.weight";
  weights.lm_head = loader.head(share_.vocab_rows(head, config_.vocab_size), config_.embedding_size);
  return weights;
}

PositionDecoder::Norm PositionDecoder::load_norm(const WeightLoader& loader, const std::string& name) const {
  if (!config_.norm_weights) return {loader.constant_vector(config_.hidden_size, 1.0f), nullptr};
  return {loader.vector({name + ".weight", config_.hidden_size}), loader.vector({name + ".bias", config_.hidden_size})};
}

PositionDecoder::Layer PositionDecoder::load_layer(const WeightLoader& loader, const std::string& prefix) const {
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
  Layer layer;
  layer.attention_norm = load_norm(loader, prefix + names_.attention_norm);
  const bool in_one = names_.qkv.size() == 1;  // q, k and v in one tensor
  const auto heads = [&](int64_t i) {
    return in_one ? share_.rows_within(prefix + names_.qkv[0], 3 * hidden, i * hidden, hidden)
                  : share_.rows(prefix + names_.qkv[static_cast<std::size_t>(i)], hidden);
  };
  layer.qkv = in_one && share_.world == 1
                  ? loader.linear({{prefix + names_.qkv[0], 3 * hidden}}, hidden, config_.biases)
                  : loader.linear({heads(0), heads(1), heads(2)}, hidden, config_.biases);
  layer.attention_out = loader.linear({share_.rows(prefix + names_.attention_out, hidden)}, hidden, config_.biases);
  layer.mlp_norm = load_norm(loader, prefix + names_.mlp_norm);
  layer.up = loader.linear({share_.rows(prefix + names_.up, intermediate)}, hidden, config_.biases);
  layer.down = loader.linear({share_.rows(prefix + names_.down, hidden)}, intermediate, config_.biases);
  return layer;
}

void PositionDecoder::activate(const mortise_activate_args& args) {
  if (args.max_batched_tokens < 1) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "activate",
                  "max_batched_tokens is " + std::to_string(args.max_batched_tokens) + "; expected at least 1");
  }
  const auto buffer = [&](int64_t columns) {
    return RowBuffer(device_, dims_.dtype, args.max_batched_tokens, columns);
  };
  buffers_.stream = buffer(config_.hidden_size);
  buffers_.other = buffer(config_.hidden_size);
  if (projected()) buffers_.embedded = buffer(config_.embedding_size);
  buffers_.qkv = buffer(3 * int64_t{share_.share(config_.hidden_size)});
  buffers_.attention = buffer(config_.hidden_size);
  buffers_.activated = buffer(config_.intermediate_size);
  max_batched_tokens_ = args.max_batched_tokens;
}

void PositionDecoder::deactivate() {
  max_batched_tokens_ = 0;
  buffers_ = {};
}

mortise_tensor PositionDecoder::forward(const mortise_step& step) {
  share_.check(step);
  const auto batch = known(step.batch);
  const int32_t num_tokens = checked_num_tokens(batch, max_batched_tokens_);
  const mortise_tensor embedded = (projected() ? buffers_.embedded : buffers_.other).rows(num_tokens);
  if (num_tokens == 0) return embedded;
  embed(step, batch, num_tokens);
  const mortise_tensor out = config_.norm_first ? run_norm_first(step, num_tokens) : run_norm_last(step, num_tokens);
  if (!projected()) return out;
  Ops ops(step);
  ops.linear(out, weights_.project_out, ops.own_columns(embedded));
  ops.gather(embedded);
  return embedded;
}

// stream := project_in(embedding[ids]) + positions[p]
void PositionDecoder::embed(const mortise_step& step, const mortise_batch& batch, int32_t num_tokens) {
  Ops ops(step);
  const mortise_tensor stream = buffers_.stream.rows(num_tokens);
  const mortise_tensor positions = buffers_.other.rows(num_tokens);
  if (projected()) {
    const mortise_tensor embedded = buffers_.embedded.rows(num_tokens);
    ops.embed(batch.device_token_ids, weights_.embedding, ops.own_columns(embedded));
    ops.gather(embedded);
    ops.linear(embedded, weights_.project_in, ops.own_columns(stream));
  } else {
    ops.embed(batch.device_token_ids, weights_.embedding, ops.own_columns(stream));
  }
  ops.embed(batch.device_positions, weights_.positions, ops.own_columns(positions));
  ops.add(ops.own_columns(stream), ops.own_columns(positions), ops.own_columns(stream));
  ops.gather(stream);
}

// Each norm first adds the previous block's output to the stream: the device does both in one pass.
mortise_tensor PositionDecoder::run_norm_first(const mortise_step& step, int32_t num_tokens) {
  Ops ops(step);
  const mortise_tensor stream = buffers_.stream.rows(num_tokens), x = buffers_.other.rows(num_tokens);
  const auto norm = [&](const Norm& weights, const mortise_tensor& in, const mortise_tensor* residual) {
    ops.layer_norm(in, residual, weights.weight, weights.bias, config_.norm_eps, x);
  };
  norm(weights_.layers.front().attention_norm, stream, nullptr);
  for (int32_t i = 0; i < config_.num_layers; ++i) {
    run_attention(step, i, x, x);
    norm(weights_.layers[i].mlp_norm, x, &stream);
    run_mlp(step, i, x, x);
    if (i + 1 < config_.num_layers) norm(weights_.layers[i + 1].attention_norm, x, &stream);
  }
  if (config_.final_norm) {
    norm(weights_.final_norm, x, &stream);
  } else {
    ops.add(stream, x, x);
  }
  return x;
}

// The normed sum is the next block's input, and the next sum adds to it. The stream alternates between two buffers.
mortise_tensor PositionDecoder::run_norm_last(const mortise_step& step, int32_t num_tokens) {
  Ops ops(step);
  const mortise_tensor stream = buffers_.stream.rows(num_tokens), other = buffers_.other.rows(num_tokens);
  const auto norm = [&](const Norm& weights, const mortise_tensor& x, const mortise_tensor& residual) {
    ops.layer_norm(x, &residual, weights.weight, weights.bias, config_.norm_eps, x);
  };
  for (int32_t i = 0; i < config_.num_layers; ++i) {
    run_attention(step, i, stream, other);
    norm(weights_.layers[i].attention_norm, other, stream);
    run_mlp(step, i, other, stream);
    norm(weights_.layers[i].mlp_norm, stream, other);
  }
  return stream;
}

void PositionDecoder::run_attention(const mortise_step& step, int32_t index, const mortise_tensor& x,
                                    const mortise_tensor& out) {
  const Layer& layer = weights_.layers[index];
  const int64_t num_tokens = x.shape[0], hidden = share_.share(config_.hidden_size);
  const mortise_tensor qkv = buffers_.qkv.rows(num_tokens);
  const mortise_tensor mixed = buffers_.attention.rows(num_tokens);
  const auto heads = [&](const mortise_tensor& matrix, int64_t column) {
    return heads_of(matrix, column, share_.share(config_.num_heads), config_.head_dim);
  };
  Ops ops(step);
  ops.linear(x, layer.qkv, qkv);
  const mortise_tensor q = heads(qkv, 0), k = heads(qkv, hidden), v = heads(qkv, 2 * hidden);
  auto append = sized<mortise_append_args>();
  append.layer = index;
  append.q = &q;
  append.k = &k;
  append.v = &v;
  ops.attention(append, heads(ops.own_columns(mixed), 0));
  ops.gather(mixed);
  ops.linear(mixed, layer.attention_out, ops.own_columns(out));
  ops.gather(out);
}

void PositionDecoder::run_mlp(const mortise_step& step, int32_t index, const mortise_tensor& x,
                              const mortise_tensor& out) {
  const Layer& layer = weights_.layers[index];
  const mortise_tensor activated = buffers_.activated.rows(x.shape[0]);
  Ops ops(step);
  ops.linear(x, layer.up, ops.own_columns(activated));
  ops.activate(config_.activation, ops.own_columns(activated));
  ops.gather(activated);
  ops.linear(activated, layer.down, ops.own_columns(out));
  ops.gather(out);
}

void PositionDecoder::head(const mortise_step& step, const mortise_tensor& hidden, int32_t vocab_begin,
                           int32_t vocab_end, const mortise_tensor& logits) {
  const mortise_weight* weight = weights_.lm_head ? weights_.lm_head.get() : weights_.embedding.get();
  run_head(step, share_, hidden, weight, config_.vocab_size, vocab_begin, vocab_end, logits);
}

}  // namespace mortise::models
