// runtime/loader/catalog.hpp: finds plugins. A part NAME is in NAME.so or NAME-<anything>.so (NAME-cpu.so,
// NAME-cuda.so), so a pipeline opens only the files that it names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/plugin_file.hpp"

namespace mortise {

struct RefusedFile {
  std::filesystem::path path;
  std::string reason;  // begins with the path
};

// Searches a list of folders. Keeps no other state: it reads the folders and files anew at each call, so an added or
// rebuilt plugin is found. Results are never freed. Used by one thread at a time. Invariant: folders_ never changes.
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

  // Folders are searched in this order. A folder that does not exist is skipped.
  explicit PluginCatalog(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // Searches the folders of MORTISE_PLUGIN_PATH (separated by colons), then lib/mortise/plugins beside the bin folder
  // of an installed executable, or the folder of the executable in a build tree; then user_folder(). So a plugin that a
  // user installed never takes the place of a built-in one of its name.
  static PluginCatalog standard();
  // The folder of the built-in plugins: lib/mortise/plugins beside bin, or that of the executable.
  static std::filesystem::path program_folder();
  // Where `mortise plugin install` puts plugins: $XDG_DATA_HOME/mortise/plugins, ~/.local/share/mortise/plugins.
  // nullopt: no home is known.
  static std::optional<std::filesystem::path> user_folder();

  const std::vector<std::filesystem::path>& folders() const { return folders_; }

  // Returns all components with the name, of any kind, in search order. If no file of that name has one, every file is
  // opened, because a file need not be named after its components.
  Found find(std::string_view name) const;
  // As find, of the files NAME.so and NAME-*.so whose SHA-256 is `sha256`; runs no code of another file. Throws an
  // Error with what each file of that name has instead.
  std::vector<const Component*> find_pinned(std::string_view name, std::string_view sha256) const;
  // The first component of that kind and name that supports the query. Throws an Error with the reasons of all others.
  const Component& select(PartKind kind, std::string_view name, const mortise_query& query) const;
  // Opens every *.so of every folder.
  Listing list() const;
  // Throws "no plugin 'x' ...", with the refused files of that name, the nearest name, and the folders searched.
  [[noreturn]] void fail_unknown(std::string_view name, const Found& found) const;

 private:
  std::vector<std::filesystem::path> files_matching(std::string_view name) const;

  std::vector<std::filesystem::path> folders_;
};

// Returns the folder of the running executable.
std::filesystem::path executable_folder();

}  // namespace mortise
