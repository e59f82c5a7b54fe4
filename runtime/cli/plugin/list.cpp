// runtime/cli/plugin/list.cpp: `mortise plugin list`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "cli/plugin/commands.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"

namespace mortise {
namespace {

struct ListedComponent {
  const Component* component;
  const PluginFile* file;
};

void print_kind(PartKind kind, const PluginCatalog::Listing& listing) {
  std::vector<ListedComponent> entries;
  std::size_t name_width = 0;
  std::size_t file_width = 0;
  for (const PluginFile* file : listing.files) {
    for (const Component& component : file->components) {
      if (component.kind != kind) continue;
      entries.push_back({&component, file});
      name_width = std::max(name_width, component.name.size());
      file_width = std::max(file_width, file->path.filename().string().size());
    }
  }
  fmt::print("{}\n", kind_name(kind));
  if (entries.empty()) fmt::print("  none\n");
  for (const auto& [component, file] : entries) {
    fmt::print("  {:{}}  {:{}}  {}  {}\n", component->name, name_width, file->path.filename().string(), file_width,
               file->version, component->summary);
  }
}

void list_plugins() {
  const PluginCatalog catalog = PluginCatalog::standard();
  const auto listing = catalog.list();
  for (const PartKind kind : kAllKinds) print_kind(kind, listing);
  if (listing.refused.empty()) return;
  fmt::print("refused\n");
  for (const auto& file : listing.refused) fmt::print("  {}\n", file.reason);
}

}  // namespace

void add_plugin_list_command(CLI::App& plugin) {
  plugin.add_subcommand("list", "list all plugins that are found, by kind")->callback(list_plugins);
}

}  // namespace mortise
