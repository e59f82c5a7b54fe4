// runtime/loader/plugin_file.hpp: loads one plugin file: looks at it, copies it, opens the copy, checks what it says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "loader/component.hpp"

namespace mortise {

// A loaded plugin file. Lives for ever, as its image does: unloading code that once ran cannot be made safe (threads,
// thread-local destructors, captured graphs), and an image costs some 0.2 MiB.
struct PluginFile {
  std::filesystem::path path;  // as it was found
  std::string hash;            // XXH3-128 of its bytes, hex
  std::string id, vendor, version, license;
  std::vector<Component> components;
};

// Loads `path`, or throws an Error "PATH: what is wrong; what to do". The file is read anew at each call: one that
// changed since is a new plugin beside the old, and one with bytes that are loaded already (also under another name)
// shares that image. Thread-safe.
const PluginFile& load_plugin_file(const std::filesystem::path& path);
// The same with the bytes of another file, for the plugin that `path` was when another process loaded it.
const PluginFile& load_plugin_file(const std::filesystem::path& path, const std::filesystem::path& bytes);

// PluginFile::hash of what the file is now, of which nothing is loaded. Throws an Error as load_plugin_file does.
std::string plugin_file_hash(const std::filesystem::path& path);

}  // namespace mortise
