// runtime/loader/catalog.hpp: where plugins are found. A part named NAME lies in NAME.so or NAME-<anything>.so
// (NAME-cpu.so, NAME-cuda.so), so that a pipeline opens the files that it names and no other.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "loader/plugin_file.hpp"

namespace mortise {

struct RefusedFile {
  std::filesystem::path path;
  std::string reason;  // begins with the path
};

// Holds folders only: files are looked for and read anew at each call, so a plugin that was added or rebuilt is seen.
// What it returns lives for ever. One thread at a time.
class PluginCatalog {
 public:
  struct Found {
    std::vector<const Component*> components;
    std::vector<RefusedFile> refused;
  };
  struct Listing {
    std::vector<const PluginFile*> files;
    std::vector<RefusedFile> refused;
  };

  // Folders are searched in this order; one that does not exist is passed over.
  explicit PluginCatalog(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // The folders of MORTISE_PLUGIN_PATH (colon separated), then lib/mortise/plugins beside the bin folder of an
  // installed executable, or the executable's own folder in a build tree.
  static PluginCatalog standard();

  const std::vector<std::filesystem::path>& folders() const { return folders_; }

  // All components of the name, of any kind, in search order. When no file of that name has one, every file is opened:
  // a file need not be named after its components, it is only found faster.
  Found find(std::string_view name) const;
  // The first component of that kind and name which supports the query. Throws an Error with all reasons.
  const Component& select(PartKind kind, std::string_view name, const mortise_query& query) const;
  // Opens every *.so of every folder.
  Listing list() const;
  // Throws "no plugin 'x' ...", with the files of that name that were refused, the nearest name, and where it looked.
  [[noreturn]] void fail_unknown(std::string_view name, const Found& found) const;

 private:
  std::vector<std::filesystem::path> files_matching(std::string_view name) const;

  std::vector<std::filesystem::path> folders_;
};

// The folder of the running executable.
std::filesystem::path executable_folder();

}  // namespace mortise
