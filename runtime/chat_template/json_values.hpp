// runtime/chat_template/json_values.hpp: values of templates from JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "chat_template/runtime.hpp"

namespace mortise::jinja {

// All texts of it are marked as from `source`. What is no UTF-8 becomes U+FFFD. Throws an Error for an integer of more
// than 64 bits, and when it takes more than the limits.
Value from_json(const nlohmann::ordered_json& json, Source source, Runtime& runtime);

// The same for the messages of a chat, which are a caller's, but for their roles.
Value from_messages(const nlohmann::ordered_json& messages, Runtime& runtime);

}  // namespace mortise::jinja
