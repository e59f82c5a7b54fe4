// Renders chats for tests in Python: JSON lines in, one line of JSON out for each.
//   {"template": text, "messages": [...], "tools": ..., "variables": {...}, "special_tokens": {...},
//    "add_generation_prompt": bool, "continue_final_message": bool}
//   -> {"text": text, "segments": [[text, from the template?], ...]}, {"refused": text} or {"error": text}
// The clock of strftime_now stands still: fixed_time.hpp.
#include <iostream>
#include <map>
#include <string>

#include "chat_template/chat_template.hpp"
#include "error.hpp"
#include "fixed_time.hpp"

namespace {

using Json = nlohmann::ordered_json;

Json render(const mortise::ChatTemplate& chat, const Json& request) {
  mortise::ChatInput input;
  input.messages = request.value("messages", Json::array());
  input.tools = request.value("tools", Json());
  input.variables = request.value("variables", Json::object());
  input.add_generation_prompt = request.value("add_generation_prompt", true);
  input.continue_final_message = request.value("continue_final_message", false);
  try {
    const mortise::SegmentedText text = chat.render(input);
    Json segments = Json::array();
    for (const auto& segment : text) segments.push_back({segment.text, segment.special_tokens});
    return {{"text", mortise::plain_text(text)}, {"segments", std::move(segments)}};
  } catch (const mortise::Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::map<std::string, mortise::ChatTemplate> compiled;
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    const std::string source = request.at("template");
    try {
      auto at = compiled.find(source);
      if (at == compiled.end()) {
        mortise::ChatTemplateOptions options;
        options.special_tokens = request.value("special_tokens", Json::object());
        options.clock = mortise::test::fixed_time;
        at = compiled.emplace(source, mortise::ChatTemplate::compile(source, std::move(options))).first;
      }
      std::cout << render(at->second, request).dump() << '\n';
    } catch (const mortise::Error& error) {
      std::cout << Json({{"refused", error.what()}}).dump() << '\n';
    }
  }
}
