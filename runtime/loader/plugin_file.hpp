// runtime/loader/plugin_file.hpp: loads a plugin file: inspects it, copies it, opens the copy, and checks its
// components.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/component.hpp"

namespace mortise {

// A loaded plugin file. Never unloaded, because code that has run cannot be unloaded safely (threads, thread-local
// destructors, captured graphs). An image takes about 0.2 MiB.
struct PluginFile {
  std::filesystem::path path;  // the path that was found
  std::string hash;            // XXH3-128 of its bytes, hex
  std::string id, vendor, version, license;
  std::uint32_t abi_minor = 0;  // of the headers that it was built with
  std::vector<Component> components;
};

// Loads `path`. Throws an Error "PATH: what is wrong; what to do". Reads the file anew at each call: a changed file is
// a new plugin beside the old one, and a file whose bytes are already loaded (also under another name) shares their
// image. Thread-safe.
const PluginFile& load_plugin_file(const std::filesystem::path& path);
// Loads the bytes of another file as if they were those of `path`: the plugin that `path` was when another process
// loaded it.
const PluginFile& load_plugin_file(const std::filesystem::path& path, const std::filesystem::path& bytes);

// Loads `path` if `sha256` (64 lower-case hexadecimal digits) is the SHA-256 of its bytes. Otherwise throws an Error
// and runs no code of the file.
const PluginFile& load_pinned_plugin_file(const std::filesystem::path& path, std::string_view sha256);

// Reads the bytes of a file. Throws an Error that continues a sentence which begins with the file's name.
std::vector<char> read_plugin_bytes(const std::filesystem::path& path);

// Returns the SHA-256 of a plugin's bytes, as 64 lower-case hexadecimal digits: what a script pins.
std::string plugin_sha256(std::span<const char> bytes);
bool is_sha256(std::string_view text);

// PluginFile::hash of the file's current bytes; loads nothing. Throws an Error as load_plugin_file does.
std::string plugin_file_hash(const std::filesystem::path& path);

}  // namespace mortise
