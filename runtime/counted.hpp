// runtime/counted.hpp: writes numbers of things for people.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace mortise {

// Returns a number with its noun: "1 token", "2 tokens". REQUIRES: the plural of the noun only adds an s.
template <std::integral Number>
std::string counted(Number number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace mortise
