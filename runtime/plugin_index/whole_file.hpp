// runtime/plugin_index/whole_file.hpp: reads and replaces small files as a whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace mortise {

// Reads the bytes of a file of up to `limit` bytes. Throws an Error that begins with the path.
std::string read_whole_file(const std::filesystem::path& path, std::size_t limit);

// Writes a file, and its folders if they do not exist. A reader sees the old bytes or the new ones, never a part of
// them. Throws an Error that begins with the path, and then leaves nothing behind.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace mortise
