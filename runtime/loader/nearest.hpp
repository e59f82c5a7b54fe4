// runtime/loader/nearest.hpp: "did you mean ...?" for names that do not exist.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mortise {

// The name that `given` is most likely a misspelling of: at most a third of its letters (but at least one) are changed,
// added, dropped, or swapped with their neighbour. nullopt if no name is that close.
std::optional<std::string> nearest_name(std::string_view given, std::span<const std::string> names);

// Returns "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view given, std::span<const std::string> names);

// Returns "a, b, c", or "none" when empty.
std::string join_names(std::span<const std::string> names);

}  // namespace mortise
