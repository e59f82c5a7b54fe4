// runtime/chat_template/checkpoint_template.hpp: compiles the chat template of a checkpoint.
#pragma once

#include <optional>

#include "chat_template/chat_template.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// nullopt if the checkpoint has none. Throws an Error if it is not supported.
std::optional<ChatTemplate> checkpoint_template(const Tokenizer& tokenizer);

}  // namespace mortise
