// plugins/models/common/checkpoint_config.hpp: the parts of config.json that all model plugins read alike: family,
// dtype, quantisation, names of activations.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "mortise/config_section.hpp"

namespace mortise::models {

struct Family {
  const char* model_type;
  const char* architecture;
};

// Returns the model_type of the checkpoint's family, by the names of transformers. If the configuration has no
// model_type, its architecture decides. Throws Failure for a checkpoint of none of `families`, and for one whose
// architectures are all of another kind (a classifier, an encoder), because their heads differ.
std::string family_of(const ConfigSection& config, std::initializer_list<Family> families);

// Returns MORTISE_BF16, MORTISE_F16 or MORTISE_F32 for the configuration's `dtype`.
int32_t checkpoint_dtype(const ConfigSection& config);

// The host's description of a quantised checkpoint. The host reads such checkpoints and has normalised this section.
struct Quantization {
  int32_t bits = 0;         // 0: the checkpoint is not quantised
  int32_t group_size = 0;   // 0: a whole row
  int32_t value_type = 0;   // 0: integers; MORTISE_F8_E4M3, MORTISE_F4_E2M1, MORTISE_I8_BLOCK32
  bool has_floats = false;  // the reader also gives the matrices as floats (GGUF)
  bool operator==(const Quantization&) const = default;
};
Quantization checkpoint_quantization(const ConfigSection& config);

// Whether an entry of `layer_types` names plain causal attention, as transformers reads it.
bool is_full_attention(const nlohmann::json& layer_type);

// Refuses attention that no family here computes: of later tokens, in chunks, and, unless `has_windows`, with windows.
// transformers reads these keys in every family. A window of at least `max_positions` tokens changes nothing.
void refuse_other_attention(const ConfigSection& config, bool has_windows, int64_t max_positions);

// Returns the MORTISE_ACT_* for the name that transformers has at `key`.
int32_t activation_of(const ConfigSection& config, const char* key, const char* absent);

}  // namespace mortise::models
