// runtime/checkpoint/generation_config.hpp: reads generation_config.json of a checkpoint: the tokens that end a text,
// and the sampling that its authors recommend. The file and each of its fields are optional. An absent field has no
// default here; the engine's default applies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/model_config.hpp"

namespace mortise {

struct GenerationConfig {
  std::vector<std::int32_t> eos_token_ids;   // of this file, otherwise of config.json; empty: no token ends a text
  std::optional<std::int32_t> bos_token_id;  // of this file, otherwise of config.json
  std::optional<std::int32_t> pad_token_id;
  std::optional<bool> do_sample;  // false: greedy by default, regardless of temperature
  std::optional<double> temperature;
  std::optional<std::int32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

// Reads `folder`/generation_config.json. If it does not exist, the result has only the token ids of `config`.
GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelConfig& config);

}  // namespace mortise
