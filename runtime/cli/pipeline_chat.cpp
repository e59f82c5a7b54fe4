#include "cli/pipeline_chat.hpp"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "chat_template/checkpoint_template.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// Stands for a content that spells a special token while the script's function works: it sees a character of a private
// area, a number, and another such character, and gets the content back where it put that.
class Placeholders {
 public:
  explicit Placeholders(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void put_into(nlohmann::ordered_json& messages) {
    for (nlohmann::ordered_json& message : messages) {
      if (!message.is_object() || !message.contains("content") || !message["content"].is_string()) continue;
      std::string content = message["content"];
      // A content with the characters themselves could be taken for a placeholder.
      if (!tokenizer_.spells_special_token(content) && content.find(kBegin) == content.npos) continue;
      message["content"] = kBegin + std::to_string(contents_.size()) + kEnd;
      contents_.push_back(std::move(content));
    }
  }

  SegmentedText filled(const std::string& text) const {
    SegmentedText segments;
    std::size_t done = 0;
    for (std::size_t at = text.find(kBegin); at != text.npos; at = text.find(kBegin, at + 1)) {
      const std::size_t number = at + kBegin.size(), end = text.find(kEnd, number);
      if (end == text.npos) break;
      for (std::size_t i = 0; i < contents_.size(); ++i) {
        if (text.compare(number, end - number, std::to_string(i)) != 0) continue;
        segments.push_back({text.substr(done, at - done), true});
        segments.push_back({contents_[i], false});
        done = end + kEnd.size();
      }
    }
    segments.push_back({text.substr(done), true});
    return segments;
  }

 private:
  static inline const std::string kBegin = "\xEE\x80\x80", kEnd = "\xEE\x80\x81";  // U+E000, U+E001

  const Tokenizer& tokenizer_;
  std::vector<std::string> contents_;
};

}  // namespace

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
        "the script's chat_template takes messages alone: no continue_final_message, add_generation_prompt, "
        "chat_template_kwargs");
  }
  nlohmann::ordered_json messages = with_text_contents(input.messages);
  Placeholders placeholders(tokenizer_);
  if (!special_tokens_in_content_) placeholders.put_into(messages);
  return {placeholders.filled(script_(messages)), /*add_special_tokens=*/true};
}

}  // namespace mortise
