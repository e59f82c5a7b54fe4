// tests/unit/chat_template/rendering.hpp: short forms to render a template in a test.
#pragma once

#include <string>
#include <string_view>

#include "chat_template/chat_template.hpp"
#include "error.hpp"

namespace mortise::test {

using Json = nlohmann::ordered_json;

inline jinja::Limits small_limits() {
  return {.max_steps = 200'000, .max_bytes = 1 << 20, .max_depth = 300};
}

inline SegmentedText segments(std::string_view source, const Json& variables = Json::object()) {
  ChatInput input;
  input.variables = variables;
  return ChatTemplate::compile(source, {.limits = small_limits()}).render(input);
}

inline std::string render(std::string_view source, const Json& variables = Json::object()) {
  return plain_text(segments(source, variables));
}

// Returns the error of loading or rendering the template; empty: there is none.
inline std::string error_of(std::string_view source, const Json& variables = Json::object()) {
  try {
    render(source, variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace mortise::test
