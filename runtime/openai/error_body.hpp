// runtime/openai/error_body.hpp: the body of an error in OpenAI's form.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace mortise {

// {"error": {"message", "type", "param", "code"}}. `param` is the field of the body with which the message begins, if
// any: "temperature is 3; ...". `code` is null if it is absent.
nlohmann::ordered_json error_body(int status, const std::string& message, const std::optional<std::string>& code);

}  // namespace mortise
