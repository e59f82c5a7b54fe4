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

// The model_type of the family that the checkpoint is of: by model_type, which is what transformers goes by; by
// architecture where there is no model_type. A checkpoint whose architectures are all something else (a classifier, an
// encoder) has another head: refused, as is one of no family named.
std::string family_of(const ConfigSection& config, std::initializer_list<Family> families);

// MORTISE_BF16, MORTISE_F16 or MORTISE_F32 after `dtype`.
int32_t checkpoint_dtype(const ConfigSection& config);

// What the host says of a checkpoint that comes quantised (it reads them, and has normalised this section).
struct Quantization {
  int32_t bits = 0;        // 0: it is not quantised
  int32_t group_size = 0;  // 0: a row
  int32_t value_type = 0;  // 0: integers; MORTISE_F8_E4M3
};
Quantization checkpoint_quantization(const ConfigSection& config);

// The MORTISE_ACT_* that transformers' name at `key` stands for.
int32_t activation_of(const ConfigSection& config, const char* key, const char* absent);

}  // namespace mortise::models
