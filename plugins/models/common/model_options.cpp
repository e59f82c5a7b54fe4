#include "models/common/model_options.hpp"

namespace mortise::models {
namespace {

// With 4 bits a group costs 5 bytes more; docs/numerics.md gives the loss of each size.
constexpr int32_t kDefaultGroupSize = 64;
constexpr int32_t kMxfp4GroupSize = 32;
constexpr int32_t kBlock32GroupSize = 32;

int32_t compute_dtype(const Options& options, int32_t checkpoint_dtype) {
  const std::string dtype = options.get<std::string>("dtype");
  if (dtype == "bf16") return MORTISE_BF16;
  if (dtype == "f32") return MORTISE_F32;
  // f16 has more precision than bf16 and less range, so only f32 represents all f16 values exactly.
  return checkpoint_dtype == MORTISE_BF16 ? MORTISE_BF16 : MORTISE_F32;
}

// Whether the device multiplies by the integers of a GGUF file. Such a file also has floats for devices that do not.
bool keeps_integers(const DeviceRef& device, const Quantization& quantization) {
  return !quantization.has_floats || device.table->numerics_id(device.device, quantization.value_type) != nullptr;
}

// Returns how the matrices are stored: as in the checkpoint, or as what they are quantised to.
WeightFormat weight_format(const Options& options, const Quantization& quantization, const DeviceRef& device,
                           int32_t dtype) {
  const auto weights = options.has("weights") ? options.get<std::string>("weights") : std::string("auto");
  if (weights == "auto") return {.dtype = dtype, .as_float = !keeps_integers(device, quantization)};
  if (weights == "float" && (quantization.bits == 0 || quantization.has_floats)) {
    return {.dtype = dtype, .as_float = true};
  }
  if (quantization.bits != 0) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "weights",
                  "\"" + weights + "\" for a checkpoint that is quantised already; leave `weights` out, " +
                      (quantization.has_floats ? "set it to \"float\", " : "") +
                      "or use the checkpoint that it was made from");
  }
  if (weights == "int8") return {dtype, 8, 0, 0};
  if (weights == "int8-block32") return {dtype, 8, kBlock32GroupSize, MORTISE_I8_BLOCK32};
  if (weights == "int4-block32") return {dtype, 4, kBlock32GroupSize, MORTISE_I8_BLOCK32};
  if (weights == "fp8") return {dtype, 8, 0, MORTISE_F8_E4M3};
  if (weights == "mxfp4") return {dtype, 4, kMxfp4GroupSize, MORTISE_F4_E2M1};
  return {dtype, 4, options.has("group_size") ? options.get<int32_t>("group_size") : kDefaultGroupSize, 0};
}

int32_t chosen_max_model_len(const Options& options, int32_t max_positions) {
  if (!options.has("max_model_len")) return max_positions;
  const auto chosen = options.get<int64_t>("max_model_len");
  if (chosen > max_positions) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "max_model_len",
                  std::to_string(chosen) + " is more than the checkpoint's max_position_embeddings " +
                      std::to_string(max_positions) + "; lower max_model_len or leave it out");
  }
  return static_cast<int32_t>(chosen);
}

}  // namespace

WeightFormat apply_options(const Options& options, const DeviceRef& device, int32_t checkpoint_dtype,
                           const Quantization& quantization, int32_t max_positions, mortise_model_dims& dims) {
  dims.max_model_len = chosen_max_model_len(options, max_positions);
  dims.dtype = compute_dtype(options, checkpoint_dtype);
  const WeightFormat format = weight_format(options, quantization, device, dims.dtype);
  // Quantised by the checkpoint: the reader gives out its matrices.
  const bool quantized = quantization.bits != 0 && !format.as_float;
  dims.weight_bits = quantized ? quantization.bits : format.bits;
  dims.weight_group_size = quantized ? quantization.group_size : format.group_size;
  dims.weight_type = quantized ? quantization.value_type : format.value_type;
  return format;
}

void tell_rounding(const mortise_host* host, int32_t checkpoint_dtype, int32_t dtype) {
  if (host == nullptr || dtype != MORTISE_BF16 || checkpoint_dtype == MORTISE_BF16) return;
  const bool f16 = checkpoint_dtype == MORTISE_F16;
  const std::string text = std::string("the checkpoint is in ") + (f16 ? "f16" : "f32") +
                           ", and is computed in bf16 (dtype = \"bf16\"): its weights are rounded from " +
                           (f16 ? "11" : "24") + " significant bits to 8";
  host->log(host, MORTISE_LOG_INFO, view(std::string_view(text)));
}

void tell_floats(const mortise_host* host, const DeviceRef& device, const Quantization& quantization) {
  if (host == nullptr || keeps_integers(device, quantization)) return;
  constexpr std::string_view kText =
      "the device does not multiply by the integers of this GGUF file (activations with a scale for each 32 columns), "
      "so that they are computed as floats";
  host->log(host, MORTISE_LOG_INFO, view(kText));
}

void require_numerics(const DeviceRef& device, const mortise_model_dims& dims) {
  if (device.table->numerics_id(device.device, dims.dtype) == nullptr) {
    const bool bf16 = dims.dtype == MORTISE_BF16;
    throw Failure(MORTISE_FAILED_PRECONDITION, "dtype",
                  std::string("the device cannot compute in ") +
                      (bf16 ? "bf16; set dtype = \"f32\""
                            : "f32; set dtype = \"bf16\", which rounds the weights of f32 and f16 checkpoints"));
  }
  const int32_t type = dims.weight_type == 0 ? MORTISE_I8 : dims.weight_type;
  if (dims.weight_bits != 0 && device.table->numerics_id(device.device, type) == nullptr) {
    if (type == MORTISE_I8_BLOCK32 && device.table->numerics_id(device.device, MORTISE_I8) != nullptr) {
      throw Failure(MORTISE_FAILED_PRECONDITION, "weights",
                    "the device cannot multiply by integers with an activation scale for each 32 columns, as "
                    "\"int8-block32\" and \"int4-block32\" need; use \"int8\", \"int4\", or the device cpu");
    }
    const char* const name = type == MORTISE_F8_E4M3 ? "FP8" : type == MORTISE_F4_E2M1 ? "MXFP4" : "quantised";
    throw Failure(MORTISE_FAILED_PRECONDITION, "weights",
                  std::string("the device cannot multiply by ") + name +
                      " weights; use a checkpoint in bf16, f16 or f32, and leave `weights` out");
  }
}

int32_t checked_num_tokens(const mortise_batch& batch, int32_t max_batched_tokens) {
  if (batch.num_tokens < 0 || batch.num_tokens > max_batched_tokens) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "forward",
                  "batch of " + std::to_string(batch.num_tokens) + " rows; expected 0 to max_batched_tokens " +
                      std::to_string(max_batched_tokens));
  }
  return batch.num_tokens;
}

}  // namespace mortise::models
