// runtime/cli/prompt.hpp: from what a person writes to the tokens of a prompt, for `run` and its dialogue.
#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/session.hpp"

namespace mortise {

// The value of -p: the prompt, or "-" for all that `input` holds, without one newline at its end.
std::string read_prompt(const std::string& value, std::istream& input);

// A text that the model goes on with, with what the tokenizer puts around a prompt.
std::vector<std::int32_t> text_prompt(const OpenPipeline& pipeline, const std::string& text);

// Messages as a chat request has them, through the pipeline's chat template. Throws an Error when it has none or the
// template refuses them.
std::vector<std::int32_t> chat_prompt(const OpenPipeline& pipeline, const nlohmann::json& messages);

}  // namespace mortise
