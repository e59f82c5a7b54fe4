#include "loader/catalog.hpp"

#include <algorithm>
#include <set>

#include "environment.hpp"
#include "error.hpp"
#include "loader/nearest.hpp"

namespace mortise {
namespace fs = std::filesystem;

fs::path executable_folder() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::current_path() : executable.parent_path();
}

PluginCatalog PluginCatalog::standard() {
  std::vector<fs::path> folders;
  const std::string variable = environment::read(environment::kPluginPath).value_or("");
  std::string_view rest = variable;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end != 0) folders.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  folders.push_back(program_folder());
  if (const auto of_user = user_folder()) folders.push_back(*of_user);
  return PluginCatalog(std::move(folders));
}

fs::path PluginCatalog::program_folder() {
  const fs::path here = executable_folder();
  const fs::path installed = here.parent_path() / "lib" / "mortise" / "plugins";
  std::error_code error;
  return here.filename() == "bin" && fs::is_directory(installed, error) ? installed : here;
}

std::optional<fs::path> PluginCatalog::user_folder() {
  const auto data = environment::data_folder();
  if (!data) return std::nullopt;
  return *data / "mortise" / "plugins";
}

// Files that may have a component `name` ("" matches all), in search order, sorted within a folder.
std::vector<fs::path> PluginCatalog::files_matching(std::string_view name) const {
  std::vector<fs::path> matching;
  for (const auto& folder : folders_) {
    std::vector<fs::path> here;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().extension() != ".so") continue;
      const std::string stem = entry->path().stem().string();
      if (name.empty() || stem == name || (stem.starts_with(name) && stem[name.size()] == '-')) {
        here.push_back(entry->path());
      }
    }
    std::sort(here.begin(), here.end());
    matching.insert(matching.end(), here.begin(), here.end());
  }
  return matching;
}

namespace {

std::string joined(const std::vector<fs::path>& folders) {
  std::string text;
  for (const auto& folder : folders) text += (text.empty() ? "" : ", ") + folder.string();
  return text;
}

// Opens the files. If two paths have the same bytes, only the first counts.
PluginCatalog::Listing open_files(const std::vector<fs::path>& paths) {
  PluginCatalog::Listing listing;
  std::set<std::string> hashes;
  for (const auto& path : paths) {
    try {
      const PluginFile& file = load_plugin_file(path);
      if (hashes.insert(file.hash).second) listing.files.push_back(&file);
    } catch (const Error& error) {
      listing.refused.push_back({path, error.what()});
    }
  }
  return listing;
}

PluginCatalog::Found named(const PluginCatalog::Listing& listing, std::string_view name) {
  PluginCatalog::Found found{{}, listing.refused};
  for (const PluginFile* file : listing.files) {
    for (const Component& component : file->components) {
      if (component.name == name) found.components.push_back(&component);
    }
  }
  return found;
}

}  // namespace

PluginCatalog::Listing PluginCatalog::list() const {
  return open_files(files_matching(""));
}

PluginCatalog::Found PluginCatalog::find(std::string_view name) const {
  if (name.empty()) return {};
  Found found = named(open_files(files_matching(name)), name);
  if (found.components.empty()) {
    std::vector<RefusedFile> refused =
        std::move(found.refused);  // only files of that name; why others were refused does not matter here
    found = named(list(), name);
    found.refused = std::move(refused);
  }
  return found;
}

std::vector<const Component*> PluginCatalog::find_pinned(std::string_view name, std::string_view sha256) const {
  const std::vector<fs::path> paths = name.empty() ? std::vector<fs::path>() : files_matching(name);
  if (paths.empty()) fail("no file {}.so or {}-*.so to pin in {}; install it there", name, name, joined(folders_));
  Listing listing;
  for (const auto& path : paths) {
    try {
      const PluginFile& file = load_pinned_plugin_file(path, sha256);
      // The same bytes in a second folder are the same plugin.
      if (listing.files.empty()) listing.files.push_back(&file);
    } catch (const Error& error) {
      listing.refused.push_back({path, error.what()});
    }
  }
  const Found found = named(listing, name);
  if (found.components.empty()) {
    if (!listing.files.empty()) {
      fail("{}: has no part '{}'; name the file, plugin {{ \"./x.so\", sha256 = ... }}",
           listing.files[0]->path.string(), name);
    }
    fail_unknown(name, found);
  }
  return found.components;
}

const Component& PluginCatalog::select(PartKind kind, std::string_view name, const mortise_query& query) const {
  Found found = find(name);
  std::erase_if(found.components, [&](const Component* component) { return component->kind != kind; });
  if (found.components.empty()) fail_unknown(name, found);
  return select_component(found.components, query, fmt::format("{} '{}'", kind_name(kind), name));
}

void PluginCatalog::fail_unknown(std::string_view name, const Found& found) const {
  if (!found.refused.empty()) {
    std::string reasons;
    for (const auto& file : found.refused) reasons += (reasons.empty() ? "" : "; ") + file.reason;
    fail("no usable plugin '{}': {}", name, reasons);
  }
  std::set<std::string> known;
  for (const PluginFile* file : list().files) {
    for (const Component& component : file->components) known.insert(component.name);
  }
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string looked = joined(folders_);
  if (names.empty()) {
    fail("unknown plugin '{}': there is no plugin in {}; set MORTISE_PLUGIN_PATH to the folder that has plugins", name,
         looked);
  }
  const std::string suggestion = did_you_mean(name, names);
  if (!suggestion.empty()) fail("unknown plugin '{}'{} in {}: {}", name, suggestion, looked, join_names(names));
  fail("unknown plugin '{}'; in {}: {}; it was not built or installed, or MORTISE_PLUGIN_PATH does not name its folder",
       name, looked, join_names(names));
}

}  // namespace mortise
