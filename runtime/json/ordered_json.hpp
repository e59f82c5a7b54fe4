// runtime/json/ordered_json.hpp: parses untrusted JSON and keeps the order of keys, for chat templates.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace mortise {

// The value in `text`; nullopt if it is not JSON or is nested deeper than kMaxJsonDepth. If keys are equal, the last
// value counts, at the place of the first. Takes O(n log n) time; nlohmann's own parser compares each key of an object
// with all keys before it.
std::optional<nlohmann::ordered_json> find_ordered_json(std::string_view text);

}  // namespace mortise
