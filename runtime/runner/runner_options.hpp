// runtime/runner/runner_options.hpp: the options in mortise_runner_open_args. The runners of the host read them, and
// those of the conformance suite check them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "loader/options_schema.hpp"

namespace mortise {

// Returns the options in `text`, a JSON object or empty, with defaults. Throws an Error if one is unknown or wrong, and
// as nlohmann::json does if the text is no JSON.
inline nlohmann::json complete_runner_options(const std::string& text) {
  static const OptionsSchema schema(R"({
    "type": "object",
    "properties": {
      "kv_memory": {"title": "memory for KV blocks: bytes, a text such as \"512MiB\" with KiB, MiB or GiB, or auto: as many tokens as the target's KV cache holds",
                    "type": ["integer", "string"], "default": "auto"},
      "attention": {"title": "options of the pipeline's attention that differ here", "type": "object",
                    "default": {}},
      "dtype": {"title": "what the model computes in", "enum": ["auto", "bf16", "f32"], "default": "auto"},
      "devices": {"title": "ranks of the pipeline that run the model, counted from 0; several cut it", "type": "array",
                  "items": {"type": "integer", "minimum": 0, "maximum": 1023}, "minItems": 1, "uniqueItems": true,
                  "default": [0]}
    }})");
  return schema.complete(text.empty() ? nlohmann::json::object() : nlohmann::json::parse(text),
                         "a draft model's runner");
}

}  // namespace mortise
