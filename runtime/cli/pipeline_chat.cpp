#include "cli/pipeline_chat.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "chat_template/checkpoint_template.hpp"
#include "cli/caller_marks.hpp"
#include "error.hpp"

namespace mortise {
PipelineChat::PipelineChat(const Tokenizer& tokenizer, const PipelineDescription& description, Script script)
    : tokenizer_(tokenizer),
      special_tokens_in_content_(description.chat.special_tokens_in_content),
      script_(std::move(script)) {
  if (script_) return;
  try {
    template_ = checkpoint_template(tokenizer);
    if (!template_) {
      why_none_ =
          "the checkpoint has no chat template; define a function chat_template(messages) in the pipeline's script";
    }
  } catch (const Error& error) {
    why_none_ = fmt::format("{}; define a function chat_template(messages) in the pipeline's script", error.what());
    spdlog::warn("pipeline {}: chats are refused: {}", description.name, why_none_);
  }
}

ChatPrompt PipelineChat::render(const ChatInput& input) const {
  if (script_) return by_script(input);
  if (!template_) throw Error(why_none_);
  ChatInput fitted = input;
  fitted.messages = template_->fitted(input.messages);
  ChatPrompt prompt{template_->render(fitted), /*add_special_tokens=*/false};
  if (special_tokens_in_content_) prompt.text = {{plain_text(prompt.text), true}};
  return prompt;
}

ChatPrompt PipelineChat::by_script(const ChatInput& input) const {
  if (input.continue_final_message || !input.add_generation_prompt || !input.variables.empty()) {
    fail(
        "the script's chat_template gets the messages only: no continue_final_message, add_generation_prompt, "
        "chat_template_kwargs");
  }
  nlohmann::ordered_json messages = with_text_contents(input.messages);
  if (special_tokens_in_content_) return {{{script_(messages), true}}, /*add_special_tokens=*/true};
  const CallerMarks marks(tokenizer_, messages);
  return {marks.segments(script_(messages)), /*add_special_tokens=*/true};
}

}  // namespace mortise
