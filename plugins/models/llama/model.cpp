#include "models/llama/model.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "models/llama/rope.hpp"
#include "mortise/ext/parallel.h"

namespace mortise::llama {
namespace {

// 4 bits cost 5 bytes a group beside; see docs/numerics.md for what the sizes lose.
constexpr int32_t kDefaultGroupSize = 64;

// Rows that begin at multiples of this share few sets of a processor's cache, so that a product that reads 32 of them
// at a time finds none of them there; a cache line more spreads them.
constexpr int64_t kRoundRowBytes = 1024, kCacheLine = 64;

bool has_host_memory(const DeviceRef& ref) {
  auto info = sized<mortise_device_info>();
  return ref.table->describe(ref.device, &info) == MORTISE_OK && info.host_memory != 0;
}

int32_t compute_dtype(const Options& options, const Config& config) {
  const std::string dtype = options.get<std::string>("dtype");
  if (dtype == "bf16") return MORTISE_BF16;
  if (dtype == "f32") return MORTISE_F32;
  // f16 has more precision than bf16 and less range: f32 alone computes it exactly.
  return config.checkpoint_dtype == MORTISE_BF16 ? MORTISE_BF16 : MORTISE_F32;
}

// The integers that the matrices are kept as: those of the checkpoint, or those that it is to be quantised to.
WeightFormat weight_format(const Options& options, const Config& config, int32_t dtype) {
  const auto weights = options.has("weights") ? options.get<std::string>("weights") : std::string("auto");
  if (weights == "auto") return {dtype, 0, 0};
  if (config.quantized_bits != 0) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "weights",
                  "\"" + weights + "\" for a checkpoint that is quantised already; leave `weights` out, or take the " +
                      "checkpoint that it was made from");
  }
  if (weights == "int8") return {dtype, 8, 0};
  return {dtype, 4, options.has("group_size") ? options.get<int32_t>("group_size") : kDefaultGroupSize};
}

int32_t chosen_max_model_len(const Options& options, const Config& config) {
  if (!options.has("max_model_len")) return config.max_positions;
  const auto chosen = options.get<int64_t>("max_model_len");
  if (chosen > config.max_positions) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "max_model_len",
                  std::to_string(chosen) + " is more than the checkpoint's max_position_embeddings " +
                      std::to_string(config.max_positions) + "; lower max_model_len or leave it out");
  }
  return static_cast<int32_t>(chosen);
}

// A checkpoint may claim millions of positions, each of which takes a row of the rope table and a microsecond; a
// sequence has no more than the KV pool holds. 0 blocks: the host did not say.
int64_t usable_positions(const mortise_activate_args& args, const mortise_model_dims& dims) {
  const int64_t positions = std::clamp(args.max_model_len, 1, dims.max_model_len);
  const int64_t in_pool = int64_t{args.num_blocks} * args.block_size;
  return in_pool > 0 ? std::min(positions, in_pool) : positions;
}

// Rows of a rope table, shared out over the threads of the device.
struct RopeJob {
  static constexpr int64_t kRowsPerTask = 1024;  // about a millisecond
  const std::vector<float>& frequencies;
  int64_t num_positions;
  float* cos;
  float* sin;

  int32_t num_tasks() const { return static_cast<int32_t>((num_positions + kRowsPerTask - 1) / kRowsPerTask); }
  void run(int32_t task) const {
    const int64_t begin = task * kRowsPerTask;
    const int64_t offset = begin * static_cast<int64_t>(frequencies.size());
    fill_rope_rows(frequencies, begin, std::min(begin + kRowsPerTask, num_positions), cos + offset, sin + offset);
  }
};

void run_rope_task(void* context, int32_t task, int32_t) {
  static_cast<const RopeJob*>(context)->run(task);
}

}  // namespace

DeviceMemory::DeviceMemory(DeviceRef owner, uint64_t bytes) {
  void* memory = nullptr;
  mortise_error error = make_error();
  check(owner.table->allocate(owner.device, bytes, &memory, &error), error);
  memory_ = {memory, Deleter{owner}};
}

Model::Model(const mortise_create_args& args)
    : device_{args.device, args.device_table},
      host_memory_(has_host_memory(device_)),
      config_(parse_config(view(args.model_config))) {
  if (args.world > 1) {
    throw Failure(MORTISE_UNIMPLEMENTED, "llama", "runs on one device; tensor parallel is not supported");
  }
  const Options options(args.options);
  dims_ = sized<mortise_model_dims>();
  dims_.num_layers = config_.num_layers;
  dims_.hidden_size = config_.hidden_size;
  dims_.num_heads = config_.num_heads;
  dims_.num_kv_heads = config_.num_kv_heads;
  dims_.head_dim = config_.head_dim;
  dims_.vocab_size = config_.vocab_size;
  dims_.max_model_len = chosen_max_model_len(options, config_);
  dims_.dtype = compute_dtype(options, config_);
  dims_.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  format_ = weight_format(options, config_, dims_.dtype);
  const bool quantized = config_.quantized_bits != 0;  // by the checkpoint: the reader hands out its matrices
  dims_.weight_bits = quantized ? config_.quantized_bits : format_.bits;
  dims_.weight_group_size = quantized ? config_.quantized_group_size : format_.group_size;
  dims_.sliding_windows = config_.sliding_windows.empty() ? nullptr : config_.sliding_windows.data();
}

int64_t Model::row_stride(int64_t columns) const {
  const int64_t bytes = columns * dtype_bytes(dims_.dtype);
  return host_memory_ && bytes % kRoundRowBytes == 0 ? columns + kCacheLine / dtype_bytes(dims_.dtype) : columns;
}

void Model::load(const mortise_weight_reader& reader) {
  if (device_.table->numerics_id(device_.device, dims_.dtype) == nullptr) {
    const bool bf16 = dims_.dtype == MORTISE_BF16;
    throw Failure(MORTISE_FAILED_PRECONDITION, "dtype",
                  std::string("the device cannot compute in ") + (bf16 ? "bf16; set dtype = \"f32\"" : "f32"));
  }
  if (dims_.weight_bits != 0 && device_.table->numerics_id(device_.device, MORTISE_I8) == nullptr) {
    throw Failure(MORTISE_FAILED_PRECONDITION, "weights",
                  "the device cannot multiply by quantised weights; take a checkpoint in bf16, f16 or f32, and leave " +
                      std::string("`weights` out"));
  }
  weights_ = load_weights(config_, format_, device_, reader);
}

void Model::activate(const mortise_activate_args& args) {
  if (args.max_batched_tokens < 1) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "activate",
                  "max_batched_tokens is " + std::to_string(args.max_batched_tokens) + "; expected at least 1");
  }
  const auto buffer = [&](int64_t columns) {
    const int64_t bytes = int64_t{args.max_batched_tokens} * row_stride(columns) * dtype_bytes(dims_.dtype);
    return DeviceMemory(device_, static_cast<uint64_t>(bytes));
  };
  buffers_.residual = buffer(config_.hidden_size);
  buffers_.x = buffer(config_.hidden_size);
  buffers_.qkv = buffer(config_.qkv_columns());
  buffers_.attention = buffer(config_.q_columns());
  const auto in_pieces = [](const LayerWeights& layer) { return layer.gate_up.size() > 1; };
  if (std::any_of(weights_.layers.begin(), weights_.layers.end(), in_pieces)) {
    buffers_.gate_up = buffer(2 * config_.intermediate_size);
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
  cos_ = DeviceMemory(device_, bytes);
  sin_ = DeviceMemory(device_, bytes);

  std::vector<float> staged;
  if (!host_memory_) staged.resize(2 * count);
  RopeJob job{frequencies, num_positions, static_cast<float*>(cos_.get()), static_cast<float*>(sin_.get())};
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
