#include "models/llama/model.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "models/common/model_options.hpp"
#include "models/llama/rope.hpp"
#include "mortise/ext/parallel.h"

namespace mortise::llama {
namespace {

// Limits the rope table. A checkpoint may claim millions of positions, each of which costs a row of the table and a
// microsecond, but no sequence is longer than the KV pool. With 0 blocks the host did not give the pool's size.
int64_t usable_positions(const mortise_activate_args& args, const mortise_model_dims& dims) {
  const int64_t positions = std::clamp(args.max_model_len, 1, dims.max_model_len);
  const int64_t in_pool = int64_t{args.num_blocks} * args.block_size;
  return in_pool > 0 ? std::min(positions, in_pool) : positions;
}

// Fills rows of the rope table on the device's threads.
struct RopeJob {
  static constexpr int64_t kRowsPerTask = 1024;  // about a millisecond
  const std::vector<float>& frequencies;
  float factor;
  int64_t num_positions;
  float* cos;
  float* sin;

  int32_t num_tasks() const { return static_cast<int32_t>((num_positions + kRowsPerTask - 1) / kRowsPerTask); }
  void run(int32_t task) const {
    const int64_t begin = task * kRowsPerTask;
    const int64_t offset = begin * static_cast<int64_t>(frequencies.size());
    fill_rope_rows(frequencies, factor, begin, std::min(begin + kRowsPerTask, num_positions), cos + offset,
                   sin + offset);
  }
};

void run_rope_task(void* context, int32_t task, int32_t) {
  static_cast<const RopeJob*>(context)->run(task);
}

}  // namespace

Model::Model(const mortise_create_args& args)
    : device_{args.device, args.device_table}, config_(parse_config(view(args.model_config))) {
  share_ = LayerShare::of(args, config_);
  dims_ = sized<mortise_model_dims>();
  dims_.num_layers = config_.num_layers;
  dims_.hidden_size = config_.hidden_size;
  dims_.num_heads = share_.num_heads;
  dims_.num_kv_heads = share_.num_kv_heads;
  dims_.head_dim = config_.head_dim;
  dims_.vocab_size = config_.vocab_size;
  dims_.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  dims_.sliding_windows = config_.sliding_windows.empty() ? nullptr : config_.sliding_windows.data();
  format_ = models::apply_options(Options(args), device_, config_.checkpoint_dtype, config_.quantization,
                                  config_.max_positions, dims_);
}

void Model::load(const mortise_weight_reader& reader) {
  models::require_numerics(device_, dims_);
  weights_ = load_weights(config_, share_, format_, device_, reader);
}

void Model::activate(const mortise_activate_args& args) {
  if (args.max_batched_tokens < 1) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "activate",
                  "max_batched_tokens is " + std::to_string(args.max_batched_tokens) + "; expected at least 1");
  }
  const auto buffer = [&](int64_t columns) {
    return RowBuffer(device_, dims_.dtype, args.max_batched_tokens, columns);
  };
  buffers_.residual = buffer(config_.hidden_size);
  buffers_.x = buffer(config_.hidden_size);
  buffers_.qkv = buffer(share_.qkv_columns(config_.head_dim));
  buffers_.attention = buffer(config_.q_columns());
  const auto in_pieces = [](const LayerWeights& layer) { return layer.gate_up.size() > 1; };
  if (std::any_of(weights_.layers.begin(), weights_.layers.end(), in_pieces)) {
    buffers_.gate_up = buffer(2 * share_.ranks.share(config_.intermediate_size));
  }
  buffers_.activated = buffer(config_.intermediate_size);
  build_rope_table(usable_positions(args, dims_));
  max_batched_tokens_ = args.max_batched_tokens;
}

void Model::deactivate() {
  max_batched_tokens_ = 0;
  buffers_ = {};
  cos_ = {};
  sin_ = {};
}

void Model::build_rope_table(int64_t num_positions) {
  const std::vector<float> frequencies = inverse_frequencies(config_.rope, config_.head_dim);
  const std::size_t count = static_cast<std::size_t>(num_positions) * frequencies.size();
  const uint64_t bytes = count * sizeof(float);
  constexpr const char* kLowerLength = "the angles of all positions grow with the model's max_model_len; lower it";
  cos_ = DeviceMemory(device_, bytes, kLowerLength);
  sin_ = DeviceMemory(device_, bytes, kLowerLength);

  std::vector<float> staged;
  if (!has_host_memory(device_)) staged.resize(2 * count);
  RopeJob job{frequencies, config_.rope.attention_factor, num_positions, static_cast<float*>(cos_.get()),
              static_cast<float*>(sin_.get())};
  if (!staged.empty()) {
    job.cos = staged.data();
    job.sin = staged.data() + count;
  }
  const void* parallel = nullptr;
  if (MORTISE_HAS(device_.table, get_ext)) parallel = device_.table->get_ext(device_.device, MORTISE_EXT_PARALLEL);
  if (parallel != nullptr) {
    const auto& table = *static_cast<const mortise_parallel_table*>(parallel);
    table.run(device_.device, job.num_tasks(), run_rope_task, &job);
  } else {
    for (int32_t task = 0; task < job.num_tasks(); ++task) job.run(task);
  }
  if (staged.empty()) return;
  mortise_error error = make_error();
  check(device_.table->copy(device_.device, nullptr, cos_.get(), job.cos, bytes, &error), error);
  check(device_.table->copy(device_.device, nullptr, sin_.get(), job.sin, bytes, &error), error);
  check(device_.table->stream_synchronize(device_.device, nullptr, &error), error);
}

}  // namespace mortise::llama
