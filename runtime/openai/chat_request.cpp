#include "openai/chat_request.hpp"

#include <optional>
#include <utility>

#include "error.hpp"
#include "json/ordered_json.hpp"

namespace mortise {
namespace {

using Ordered = nlohmann::ordered_json;

void check_content(const Body& message) {
  const nlohmann::json* parts = message.find("content");
  if (parts == nullptr) return;
  if (!parts->is_array()) {
    message.string("content");
    return;
  }
  for (const nlohmann::json& part : *parts) {
    const Body content(part, "messages: content part");
    if (content.string("type").value_or("") != "text") fail_type("messages: content part", "type \"text\"", part);
    content.string("text");
  }
}

// OpenAI's clients send a tool call's arguments as the text that the model wrote, while templates expect JSON.
void parse_arguments(Ordered& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (Ordered& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Ordered& arguments = call["function"]["arguments"];
    if (arguments.is_null()) arguments = Ordered::object();
    if (!arguments.is_string()) continue;
    std::optional<Ordered> parsed = find_ordered_json(arguments.get_ref<const std::string&>());
    if (parsed && parsed->is_object()) arguments = std::move(*parsed);
  }
}

// Like transformers, gives a thought the standard name and also the name that some templates read.
void name_thought(Ordered& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!message.contains(name)) continue;
    const Ordered thought = message[name];
    message["reasoning_content"] = thought;
    if (!message.contains("thinking")) message["thinking"] = thought;
    return;
  }
}

Ordered read_messages(const nlohmann::json& json) {
  if (!json.is_array() || json.empty()) fail_type("messages", "a list of at least one message", json);
  Ordered messages = Ordered::array();
  for (const nlohmann::json& from : json) {
    const Body fields(from, "messages: a message");
    check_role(fields.string("role"));
    check_content(fields);
    const std::string role = *fields.string("role");
    if (!from.contains("content") && role != "assistant") {
      fail("messages: a message of the role '{}' has no content; write it as a text or a list of text parts", role);
    }
    Ordered message = {{"role", role}, {"content", ""}};
    auto& entries = message.get_ref<Ordered::object_t&>();
    for (const auto& [name, value] : from.items()) {
      // Faster than `entries[name]`, which would search all entries; the names in `from` are distinct.
      if (name == "content" && !value.is_null()) entries["content"] = value;
      if (name != "role" && name != "content" && !value.is_null()) entries.push_back({name, value});
    }
    parse_arguments(message);
    name_thought(message);
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

ChatInput read_chat_input(const Body& body) {
  ChatInput input;
  input.messages = read_messages(body.require("messages"));
  input.continue_final_message = body.boolean("continue_final_message").value_or(false);
  input.add_generation_prompt = body.boolean("add_generation_prompt").value_or(!input.continue_final_message);
  if (input.continue_final_message && input.add_generation_prompt) {
    fail(
        "add_generation_prompt and continue_final_message are both true; the first begins a message, the second "
        "continues the last one");
  }
  if (const nlohmann::json* variables = body.find("chat_template_kwargs")) {
    if (!variables->is_object())
      fail_type("chat_template_kwargs", "an object of variables for the template", *variables);
    for (const char* name : {"messages", "tools", "add_generation_prompt", "continue_final_message"}) {
      if (variables->contains(name)) fail("chat_template_kwargs: {} is a field of the body; set it there", name);
    }
    input.variables = *variables;
  }
  return input;
}

std::vector<std::int32_t> chat_tokens(const ChatPrompt& prompt, const Tokenizer& tokenizer, std::size_t most) {
  // One more than `most`, because the first token may be removed.
  std::vector<std::int32_t> ids = tokenizer.encode(prompt.text, prompt.add_special_tokens, most + 1);
  const bool twice = ids.size() > 1 && ids[0] == ids[1] && tokenizer.is_special(ids[0]);
  if (prompt.add_special_tokens && twice) ids.erase(ids.begin());
  if (ids.size() > most) {
    fail(ErrorCode::kTooLarge, "messages: the chat has more than {} tokens, many times the model's length; shorten it",
         most);
  }
  return ids;
}

}  // namespace mortise
