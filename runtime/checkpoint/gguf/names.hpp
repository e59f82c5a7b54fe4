// runtime/checkpoint/gguf/names.hpp: the tensors of a GGUF model under their Hugging Face names. Internal to this
// folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/gguf/file.hpp"
#include "checkpoint/safetensors.hpp"

namespace mortise {

// The tensors that a model has besides those that all models of its family have.
struct GgufFeatures {
  bool is_gpt2 = false;
  bool head = false;  // output.weight; without it the embedding is the head
  bool qkv_bias = false, out_bias = false, mlp_bias = false, qk_norm = false;
  // Of q and k, whose rows llama.cpp reorders; 0: it does not.
  std::int64_t rope_heads = 0, rope_kv_heads = 0;
  std::int64_t num_layers = 0;
  bool rope_factors = false;  // rope_freqs.weight, which is read as a part of the configuration
};

// Throws an Error for a tensor that the model needs and the file lacks, and for one that the model does not read.
TensorMap name_tensors(const std::vector<GgufFile>& parts, const GgufFeatures& features);

// The tensor of any part; nullptr: there is none.
const GgufTensor* find_gguf_tensor(const std::vector<GgufFile>& parts, std::string_view name);

}  // namespace mortise
