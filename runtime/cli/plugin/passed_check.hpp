// runtime/cli/plugin/passed_check.hpp: the check that a plugin has to pass before it is published or installed.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "plugin_index/index_entry.hpp"

namespace mortise {

// Runs the conformance suite on the file and prints a line with its result. Throws an Error with the first case that
// fails, which calls the plugin `name`. REQUIRES: this process has one thread.
PublishedCheck passed_check(const std::filesystem::path& file, const std::string& name, const std::string& level,
                            nlohmann::json options);

}  // namespace mortise
