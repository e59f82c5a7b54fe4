// runtime/cli/repl/part_text.hpp: the text form of a part: NAME [option=value ...].
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "loader/catalog.hpp"
#include "pipeline/description.hpp"

namespace mortise {

struct PartText {
  std::string name;
  nlohmann::json options = nlohmann::json::object();
};

// Parses the text. A value is JSON, or else plain text; a value with spaces is in double quotes. Throws an Error for a
// word without '=' and for an option that is given twice.
PartText parse_part_text(std::string_view text);

// Returns a text such as "draft max_tokens=4 path=\"/models/x\"".
std::string show_part(const PartDescription& part);

}  // namespace mortise
