// runtime/chat_template/escapes.hpp: replaces the escape sequences in a template's string.
#pragma once

#include <string>
#include <string_view>

namespace mortise::jinja {

// Replaces escapes as in Python's string literals. Throws an Error for an invalid escape, and for one that names a
// character.
std::string unescape(std::string_view text);

}  // namespace mortise::jinja
