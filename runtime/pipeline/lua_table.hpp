// runtime/pipeline/lua_table.hpp: evaluates the text that a person types after the name of a part: its options,
// {block_size = 16}, or the list of first_of, {ngram {}, draft_model {path = "..."}}.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mortise {

// The table that the Lua text describes, evaluated in the sandbox of pipeline scripts and with their limits. Messages
// call it `name`. Throws an Error if it is not a table with text keys.
nlohmann::json evaluate_table(std::string_view text, const std::string& name);

// The list of parts that the text describes, each {"plugin": NAME, "options": {...}}; a file is written
// plugin("./mine.so") {...}. The plugins need not exist. Otherwise like evaluate_table().
nlohmann::json evaluate_parts(std::string_view text, const std::string& name);

}  // namespace mortise
