// runtime/pipeline/lua_table.hpp: the options of a part as a person types them, {block_size = 16}.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mortise {

// The table that the text of Lua says, evaluated in the sandbox of pipeline scripts and within their limits. `name`
// stands for it in messages. Throws an Error when it is no table with names.
nlohmann::json evaluate_table(std::string_view text, const std::string& name);

}  // namespace mortise
