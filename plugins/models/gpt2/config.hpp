// plugins/models/gpt2/config.hpp: what the checkpoint's config.json says of a GPT-2 model, checked.
#pragma once

#include <string_view>

#include "models/common/position_decoder.hpp"

namespace mortise::gpt2 {

// Reads the normalised config.json. Throws Failure: UNIMPLEMENTED for a model that this plugin cannot compute exactly,
// INVALID_ARGUMENT for a value that makes no model; the message names key, value and expectation.
models::DecoderConfig parse_config(std::string_view json);

const models::DecoderNames& tensor_names();

}  // namespace mortise::gpt2
