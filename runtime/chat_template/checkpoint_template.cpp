#include "chat_template/checkpoint_template.hpp"

namespace mortise {

std::optional<ChatTemplate> checkpoint_template(const Tokenizer& tokenizer) {
  if (tokenizer.chat_template().empty()) return std::nullopt;
  ChatTemplateOptions options;
  options.special_tokens = tokenizer.special_token_texts();
  return ChatTemplate::compile(tokenizer.chat_template(), std::move(options));
}

}  // namespace mortise
