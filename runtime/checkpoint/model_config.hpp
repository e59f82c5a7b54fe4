// runtime/checkpoint/model_config.hpp: reads config.json of a checkpoint. The model plugin interprets the architecture;
// the host needs only the fields below. Plugins get the configuration in a single form, that of transformers 5,
// whatever form the file has:
//
//   dtype            "bfloat16" | "float16" | "float32" | ...: `torch_dtype` of transformers 4; when the file has
//                    neither, the dtype that most bytes of the weights have. Never absent, never null.
//   rope_parameters  {"rope_type": "default" | "linear" | "llama3" | ..., "rope_theta": 10000.0, ...}: from
//                    `rope_theta`, `rope_scaling` (whose key `type` becomes `rope_type`) and
//                    `partial_rotary_factor`, which are gone.
//                    rope_type is always there; rope_theta only if the file names one (transformers then takes 10000);
//                    llama3, yarn and longrope always have original_max_position_embeddings. Absent when the file says
//                    nothing about rope. Parameters nested by layer type ({"full_attention": {...}, ...}) stay as they
//                    are.
//
//   quantization_config  {"quant_method", "bits", "group_size", "type"}, see quantization.hpp. Absent: not quantised.
//
// Everything else passes through: layer_types, sliding_window, use_sliding_window, max_window_layers, null values too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/quantization.hpp"

namespace mortise {

struct ModelConfig {
  std::string json;  // normalised as above; compact with sorted keys, so equal configurations are equal strings
  std::vector<std::string> architectures;
  std::string model_type;
  std::string dtype;
  std::optional<std::int64_t> vocab_size;
  std::optional<std::int64_t> max_position_embeddings;
  std::optional<std::int32_t> bos_token_id;
  std::vector<std::int32_t> eos_token_ids;
  std::optional<QuantizationConfig> quantization;
};

// Reads `folder`/config.json. `weights_dtype` is used if the file has no dtype.
ModelConfig read_model_config(const std::filesystem::path& folder, std::string_view weights_dtype);
// The same for a configuration that was read or made. `where` names it in messages.
ModelConfig make_model_config(nlohmann::json config, const std::string& where, std::string_view weights_dtype);

}  // namespace mortise
