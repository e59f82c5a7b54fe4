// runtime/chat_template/text_methods.hpp: Python's methods of strings.
#pragma once

#include <string_view>

#include "chat_template/runtime.hpp"

namespace mortise::jinja {

// Null if there is no method of this name.
Method find_text_method(std::string_view name);

}  // namespace mortise::jinja
