// runtime/json/ordered_json.hpp: foreign JSON whose objects keep the order of their keys, for chat templates.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace mortise {

// The value in `text`, or nothing where it is none, or nests deeper than kMaxJsonDepth. Of equal keys the last value
// counts, at the first one's place. Takes O(n log n) time; nlohmann's own parser compares each key of an object with
// all before it.
std::optional<nlohmann::ordered_json> find_ordered_json(std::string_view text);

}  // namespace mortise
