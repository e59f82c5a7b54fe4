// runtime/chat_template/chat_template.hpp: a checkpoint's chat template, which makes one text of messages.
// It is written in Jinja; served is the part of it that such templates use, with the settings of transformers
// (trim_blocks, lstrip_blocks, loop controls, raise_exception, strftime_now, tojson). compile() refuses tags, filters,
// tests, functions and syntax that are not served; render() refuses values that an operation does not take, integers of
// more than 64 bits, and whatever goes beyond the limits. What is rendered is what Python's jinja2 renders, but for the
// few differences that README.md lists.
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

// What a template sees, all of it from a caller. Objects keep the order of their keys.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;                                         // null: none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // by name, such as {"enable_thinking": false}
  bool add_generation_prompt = true;
  // The text ends within the last message, whose content the model goes on with.
  bool continue_final_message = false;
};

struct ChatTemplateOptions {
  std::string name = "chat_template";          // in errors
  nlohmann::ordered_json special_tokens = {};  // texts by name: bos_token, eos_token ...
  jinja::Limits limits = {};
  std::function<std::tm()> clock = {};  // of strftime_now; none: the local time
};

// Immutable; all functions may be called by many threads at once.
class ChatTemplate {
 public:
  // Throws an Error that names what is not supported and its line: "chat_template line 12: the filter 'xyz' is not
  // supported".
  static ChatTemplate compile(std::string_view source, ChatTemplateOptions options = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // The text, with what comes from the caller marked: special tokens are not to be found in it. The role of a message
  // counts as the template's, since templates spell special tokens with it. Throws an Error that names the line when
  // the template refuses the messages, when it asks of a value what the value does not have, and when it takes more
  // than the limits allow.
  SegmentedText render(const ChatInput& input) const;

  // The messages with contents of the form that the template reads: a text, or a list of parts, {"type": "text",
  // "text": ...}. compile() renders one message in each form to find out.
  nlohmann::ordered_json fitted(const nlohmann::ordered_json& messages) const;

 private:
  struct Compiled;
  explicit ChatTemplate(std::unique_ptr<const Compiled> compiled);
  bool shows_content(const nlohmann::ordered_json& content) const;

  std::unique_ptr<const Compiled> compiled_;
  bool takes_parts_ = false, needs_parts_ = false;
};

// The messages with each list of parts as one text: the texts of the parts, one behind the other.
nlohmann::ordered_json with_text_contents(const nlohmann::ordered_json& messages);

}  // namespace mortise
