// runtime/cli/plugin/check_options.hpp: arguments that `plugin check` and `plugin bench` share.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace mortise {

// Returns the options of a component, from the JSON object of --options. Throws an Error if `text` is none.
nlohmann::json read_plugin_options(const std::string& text);

// Throws an Error that names the command if `file` is no file.
void check_is_plugin_file(const char* command, const std::filesystem::path& file);

}  // namespace mortise
