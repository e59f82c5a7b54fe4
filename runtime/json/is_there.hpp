// runtime/json/is_there.hpp: whether a folder has one of the files that it need not have. For all readers of foreign
// folders, so that none takes a file that it cannot reach for one that is absent.
#pragma once

#include <filesystem>

namespace mortise {

// Whether there is something at `path`. Error when that cannot be told: a loop of links, a folder that may not be read.
bool is_there(const std::filesystem::path& path);

}  // namespace mortise
