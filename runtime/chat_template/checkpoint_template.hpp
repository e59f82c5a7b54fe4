// runtime/chat_template/checkpoint_template.hpp: the chat template that came with a checkpoint.
#pragma once

#include <optional>

#include "chat_template/chat_template.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// nullopt when the checkpoint has none. Throws an Error when it is not supported.
std::optional<ChatTemplate> checkpoint_template(const Tokenizer& tokenizer);

}  // namespace mortise
