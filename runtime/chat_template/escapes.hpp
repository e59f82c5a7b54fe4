// runtime/chat_template/escapes.hpp: what the backslashes in a string of a template stand for.
#pragma once

#include <string>
#include <string_view>

namespace mortise::jinja {

// As Python's string literals. Throws an Error for an escape that is broken, or that names a character.
std::string unescape(std::string_view text);

}  // namespace mortise::jinja
