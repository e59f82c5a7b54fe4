// runtime/counted.hpp: numbers of things in texts for people.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace mortise {

// "1 token", "2 tokens". REQUIRES: the noun's plural has an s and no other change.
template <std::integral Number>
std::string counted(Number number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace mortise
