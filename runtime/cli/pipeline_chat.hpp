// runtime/cli/pipeline_chat.hpp: renders the prompt of a chat, with the script's function chat_template if it has one,
// otherwise with the checkpoint's template.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "openai/service.hpp"
#include "pipeline/description.hpp"

namespace mortise {

// Renders chats for one pipeline. Constant after construction. Invariant: it has a script, a template, or a reason why
// there is none. render() may be called on any thread if `script` may.
class PipelineChat {
 public:
  // The script's function. It gets messages whose contents are texts, and returns the text of the chat. The texts carry
  // CallerMarks (caller_marks.hpp), which keep them from making special tokens, unless the pipeline accepts special
  // tokens in contents.
  using Script = std::function<std::string(const nlohmann::json& messages)>;

  // `tokenizer` outlives this object. Without `script`, the checkpoint's template is used; if it is not supported, that
  // is logged, and each chat is refused with the reason, while everything else works.
  PipelineChat(const Tokenizer& tokenizer, const PipelineDescription& description, Script script);

  // Renders a chat. Throws an Error if the template fails or refuses the messages. Thread-safe if `script` is.
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
