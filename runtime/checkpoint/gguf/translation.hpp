// runtime/checkpoint/gguf/translation.hpp: a GGUF model as the Hugging Face checkpoint that it was converted from: its
// config.json, its tensors by their names there, its end tokens. Served are the architectures llama (with Mistral,
// which has this name in GGUF files), qwen2, qwen3 and gpt2.
//
// Nothing of the file is left out silently. A key of the architecture that is not translated is refused by name, since
// it could change results, and so is a tensor that the model would not read: a bias that the first layer lacks, a norm
// that the architecture has not, a layer beyond the last.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/generation_config.hpp"
#include "checkpoint/gguf/parts.hpp"
#include "checkpoint/safetensors.hpp"

namespace mortise {

struct GgufModel {
  nlohmann::json config;                    // as transformers 5 writes it, but for quantization_config
  std::vector<std::int32_t> eos_token_ids;  // of the keys eos, eot and eom
  std::optional<std::int32_t> bos_token_id;
  TensorMap tensors;  // views of the parts
};

// Throws an Error that names the file, the key or tensor, its place and the remedy. `parts`: of open_gguf_parts().
GgufModel translate_gguf(const std::vector<GgufFile>& parts);

}  // namespace mortise
