// plugins/models/opt/config.hpp: the checked contents of an OPT model's config.json.
#pragma once

#include <string_view>

#include "models/common/position_decoder.hpp"

namespace mortise::opt {

// Reads the normalised config.json. Throws Failure: UNIMPLEMENTED for a model that this plugin cannot compute exactly,
// INVALID_ARGUMENT for an invalid value. The message names the key, the value and the expected values.
models::DecoderConfig parse_config(std::string_view json);

const models::DecoderNames& tensor_names();

}  // namespace mortise::opt
