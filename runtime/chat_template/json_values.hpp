// runtime/chat_template/json_values.hpp: converts JSON to values of templates.
#pragma once

#include <nlohmann/json.hpp>

#include "chat_template/runtime.hpp"

namespace mortise::jinja {

// Marks all texts as coming from `source`. Invalid UTF-8 becomes U+FFFD. Throws an Error for an integer of more than 64
// bits, and if the value exceeds the limits.
Value from_json(const nlohmann::ordered_json& json, Source source, Runtime& runtime);

// The same for the messages of a chat: all texts come from the caller, except their roles.
Value from_messages(const nlohmann::ordered_json& messages, Runtime& runtime);

}  // namespace mortise::jinja
