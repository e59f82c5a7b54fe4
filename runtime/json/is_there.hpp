// runtime/json/is_there.hpp: whether a folder has an optional file. All readers of foreign folders use it, so that none
// mistakes an unreachable file for an absent one.
#pragma once

#include <filesystem>

namespace mortise {

// Whether `path` exists. Throws an Error if that cannot be determined: a loop of links, a folder that may not be read.
bool is_there(const std::filesystem::path& path);

}  // namespace mortise
