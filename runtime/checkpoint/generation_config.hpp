// runtime/checkpoint/generation_config.hpp: generation_config.json of a checkpoint: which tokens end a text, and the
// sampling that its authors recommend. The file is optional, and so is every field; what is absent here has no default
// here either, the engine's stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/model_config.hpp"

namespace mortise {

struct GenerationConfig {
  std::vector<std::int32_t> eos_token_ids;   // of this file, else of config.json; empty: nothing ends a text by itself
  std::optional<std::int32_t> bos_token_id;  // of this file, else of config.json
  std::optional<std::int32_t> pad_token_id;
  std::optional<bool> do_sample;  // false: the authors' default is greedy, whatever temperature says
  std::optional<double> temperature;
  std::optional<std::int32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

// Reads `folder`/generation_config.json; when there is none, the token ids of `config` are all there is.
GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelConfig& config);

}  // namespace mortise
