// runtime/cli/prompt.hpp: turns a person's text into the tokens of a prompt, for `run` and its dialogue.
#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/session.hpp"

namespace mortise {

// Returns the value of -p: the prompt itself, or "-" for all of `input` without one newline at its end.
std::string read_prompt(const std::string& value, std::istream& input);

// Returns the tokens of a text to be continued, with the special tokens that the tokenizer adds to a prompt.
std::vector<std::int32_t> text_prompt(const OpenPipeline& pipeline, const std::string& text);

// Returns the tokens of messages, rendered by the pipeline's chat template. Throws an Error if there is no template, or
// it refuses the messages.
std::vector<std::int32_t> chat_prompt(const OpenPipeline& pipeline, const nlohmann::json& messages);

}  // namespace mortise
