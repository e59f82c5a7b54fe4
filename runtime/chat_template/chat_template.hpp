// runtime/chat_template/chat_template.hpp: renders messages with a checkpoint's chat template. Templates are written in
// Jinja. The part of Jinja that such templates use is supported, with the settings of transformers (trim_blocks,
// lstrip_blocks, loop controls, raise_exception, strftime_now, tojson). compile() refuses unsupported tags, filters,
// tests, functions and syntax. render() refuses values that an operation does not accept, integers of more than 64
// bits, and anything beyond the limits. The text equals that of Python's jinja2, except for the few differences that
// README.md lists.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "chat_template/budget.hpp"
#include "tokenizer/text_segment.hpp"

namespace mortise {

// The variables of a template, all of them from the caller. Objects keep the order of their keys.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;  // null: no tools
  // By name, for instance {"enable_thinking": false}.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;
  // The text ends inside the last message, so that the model continues its content.
  bool continue_final_message = false;
};

struct ChatTemplateOptions {
  std::string name = "chat_template";          // name in errors
  nlohmann::ordered_json special_tokens = {};  // texts by name: bos_token, eos_token, ..
  jinja::Limits limits = {};
  std::function<std::tm()> clock = {};  // for strftime_now; empty: the local time
};

// A compiled template. Immutable and thread-safe.
class ChatTemplate {
 public:
  // Throws an Error that names what is not supported and its line: "chat_template line 12: the filter 'xyz' is not
  // supported".
  static ChatTemplate compile(std::string_view source, ChatTemplateOptions options = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders the text. Text from the caller is marked, so that no special token is found in it. The role of a message
  // counts as the template's text, because templates use it to spell special tokens. Throws an Error that names the
  // line if the template refuses the messages, if it uses a value in a way that the value does not support, or if it
  // exceeds the limits.
  SegmentedText render(const ChatInput& input) const;

  // The messages with contents in the form that the template expects: a text, or a list of parts, {"type": "text",
  // "text": ...}. compile() finds out by rendering a message in each form.
  nlohmann::ordered_json fitted(const nlohmann::ordered_json& messages) const;

 private:
  struct Compiled;
  explicit ChatTemplate(std::unique_ptr<const Compiled> compiled);
  bool shows_content(const nlohmann::ordered_json& content) const;

  std::unique_ptr<const Compiled> compiled_;
  bool takes_parts_ = false, needs_parts_ = false;
};

// The messages with each list of parts replaced by the concatenated texts of the parts.
nlohmann::ordered_json with_text_contents(const nlohmann::ordered_json& messages);

}  // namespace mortise
