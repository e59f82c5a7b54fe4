// runtime/pipeline/lua_table.hpp: what a person types behind the name of a part: its options, {block_size = 16}, or
// first_of's list of parts, {ngram {}, draft_model {path = "..."}}.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mortise {

// The table that the text of Lua says, evaluated in the sandbox of pipeline scripts and within their limits. `name`
// stands for it in messages. Throws an Error when it is no table with names.
nlohmann::json evaluate_table(std::string_view text, const std::string& name);

// The list of parts that the text says, each {"plugin": NAME, "options": {...}}; a file is plugin("./mine.so") {...}.
// Which plugins there are does not matter here. Otherwise as evaluate_table().
nlohmann::json evaluate_parts(std::string_view text, const std::string& name);

}  // namespace mortise
