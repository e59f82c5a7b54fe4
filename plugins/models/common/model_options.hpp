// plugins/models/common/model_options.hpp: the options that every model plugin here takes, and their effect.
#pragma once

#include "models/common/checkpoint_config.hpp"
#include "mortise/weights.hpp"

namespace mortise::models {

constexpr const char* kOptionsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"title": "folder of the checkpoint (config.json, safetensors, tokenizer), or a GGUF file",
             "type": "string", "minLength": 1, "format": "path"},
    "max_model_len": {"title": "longest sequence in tokens; null: the checkpoint's max_position_embeddings",
                      "type": ["integer", "null"], "minimum": 1, "default": null},
    "dtype": {"title": "type of activations; auto: bf16 for bf16 checkpoints, f32 for f32 and f16 checkpoints; bf16 rounds their weights",
              "enum": ["auto", "bf16", "f32"], "default": "auto"},
    "weights": {"title": "type of the layers' matrices; auto: as in the checkpoint; float: also the integers of a GGUF file as floats; int8, fp8: one scale per row; int4: one scale per group; mxfp4: one per 32 columns; int8-block32, int4-block32: one per 32 columns of weights and of activations",
                "enum": ["auto", "float", "int8", "int8-block32", "int4", "int4-block32", "fp8", "mxfp4"], "default": "auto"},
    "group_size": {"title": "columns that share a scale in int4 weights", "enum": [32, 64, 128], "default": 64}
  }
})schema";

// Applies the options to a checkpoint. Sets max_model_len, dtype and the weight_ fields of `dims`; the model sets the
// rest. The integers of a GGUF file are used as floats on a device without their class. Throws Failure for options that
// do not go together.
WeightFormat apply_options(const Options& options, const DeviceRef& device, int32_t checkpoint_dtype,
                           const Quantization& quantization, int32_t max_positions, mortise_model_dims& dims);

// Logs a warning if the checkpoint's numbers are rounded to compute in `dtype`. `host` may be null.
void tell_rounding(const mortise_host* host, int32_t checkpoint_dtype, int32_t dtype);

// Logs that the integers of a GGUF file are computed as floats, if that is because of the device. `host` may be null.
void tell_floats(const mortise_host* host, const DeviceRef& device, const Quantization& quantization);

// Throws Failure if the device cannot compute in the types of `dims`.
void require_numerics(const DeviceRef& device, const mortise_model_dims& dims);

// Returns the rows of a forward of up to max_batched_tokens. Throws Failure if there are more.
int32_t checked_num_tokens(const mortise_batch& batch, int32_t max_batched_tokens);

}  // namespace mortise::models
