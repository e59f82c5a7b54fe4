// runtime/cli/pipeline_chat.hpp: how a pipeline makes a prompt of a chat: by the script's function chat_template, or
// else by the template of its checkpoint.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "openai/service.hpp"
#include "pipeline/description.hpp"

namespace mortise {

class PipelineChat {
 public:
  // The script's function: messages, whose contents are texts, to the text of the chat. It sees CallerMarks, unless the
  // pipeline takes special tokens in contents.
  using Script = std::function<std::string(const nlohmann::json& messages)>;

  // `tokenizer` outlives it. No `script`: the checkpoint's template; one that is not supported is logged, and each
  // chat is refused with the reason, while everything else is served.
  PipelineChat(const Tokenizer& tokenizer, const PipelineDescription& description, Script script);

  // Throws an Error when the template cannot, or does not want to. Thread-safe if `script` is.
  ChatPrompt render(const ChatInput& input) const;

 private:
  ChatPrompt by_script(const ChatInput& input) const;

  const Tokenizer& tokenizer_;
  const bool special_tokens_in_content_;
  const Script script_;
  std::optional<ChatTemplate> template_;
  std::string why_none_;
};

}  // namespace mortise
