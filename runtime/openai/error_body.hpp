// runtime/openai/error_body.hpp: an error in OpenAI's form.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace mortise {

// {"error": {"message", "type", "param", "code"}}. `param` is the field of the body that the message begins with, if it
// begins with one: "temperature is 3; ...". Without a code it is null.
nlohmann::ordered_json error_body(int status, const std::string& message, const std::optional<std::string>& code);

}  // namespace mortise
