// runtime/cli/plugin/info.cpp: `mortise plugin info NAME|FILE`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "cli/plugin/commands.hpp"
#include "cli/plugin/device_numerics.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"
#include "loader/module_manifest.hpp"
#include "loader/nearest.hpp"
#include "loader/part_instance.hpp"
#include "mortise/device.h"

namespace mortise {
namespace {

void print_options(const OptionsSchema& schema) {
  if (schema.options().empty()) {
    fmt::print("  options       none\n");
    return;
  }
  fmt::print("  options\n");
  std::size_t name_width = 0;
  std::size_t type_width = 0;
  for (const auto& option : schema.options()) {
    name_width = std::max(name_width, option.name.size());
    type_width = std::max(type_width, option.type.size());
  }
  for (const auto& option : schema.options()) {
    const std::string value = option.required ? "required" : "default " + option.default_value.dump();
    fmt::print("    {:{}}  {:{}}  {}; {} ({})\n", option.name, name_width, option.type, type_width, value, option.title,
               option.expected);
  }
}

// Opens the device, because it describes the machine only then.
void print_machine(const Component& component) {
  try {
    const PartInstance device = open_device(component);
    const auto* table = device.table<mortise_device_table>();
    auto* handle = device.handle<mortise_device>();
    mortise_device_info info{};
    info.struct_size = sizeof info;
    device.perform("describe", [&](mortise_error*) { return table->describe(handle, &info); });
    fmt::print("  machine       {}\n", plugin_text(info.name, sizeof info.name));
    fmt::print("  isa           {}\n", plugin_text(info.isa, sizeof info.isa));
    if (info.num_threads > 0) fmt::print("  threads       {}\n", info.num_threads);
    fmt::print("  memory        {:.1f} GiB\n", static_cast<double>(info.memory_bytes) / (1 << 30));
    for (const auto& [id, dtype] : device_numerics(device)) fmt::print("  numerics      {} ({})\n", id, dtype);
  } catch (const Error& error) {
    fmt::print("  machine       cannot be used here: {}\n", error.what());
  }
}

void print_component(const Component& component, const PluginFile& file) {
  fmt::print("{} {}\n", kind_name(component.kind), component.name);
  fmt::print("  summary       {}\n", component.summary);
  fmt::print("  file          {}\n", file.path.string());
  fmt::print("  sha256        {}\n", plugin_sha256(read_plugin_bytes(file.path)));
  fmt::print("  plugin        {} {}, {}, {}, ABI {}.{}\n", file.id, file.version, file.vendor, file.license,
             MORTISE_ABI_MAJOR, file.abi_minor);
  fmt::print("  capabilities  {}\n", join_names(capability_words(component.capabilities)));
  for (const std::string& id : numerics_ids(component.numerics_id, component.capabilities)) {
    fmt::print("  numerics      {}\n", id);
  }
  if (component.kind == PartKind::kDevice) print_machine(component);
  print_options(component.schema);
}

bool names_file(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".so");
}

// Runs none of the file's code. The file's texts come from a stranger.
void show_manifest(const std::string& path) {
  std::vector<char> bytes;
  std::optional<ModuleManifest> manifest;
  try {
    bytes = read_plugin_bytes(path);
    manifest = read_module_manifest(bytes);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
  if (!manifest) {
    fail(
        "{}: has no description that can be read without running its code (mortise/manifest.h); if you trust it, --run "
        "loads it",
        path);
  }
  const auto line = [](const std::string& text) { return plugin_text(text.c_str(), 400); };
  for (const ComponentManifest& component : manifest->components) {
    const auto kind = std::ranges::find(kAllKinds, static_cast<PartKind>(component.kind));
    fmt::print("{} {}\n", kind == std::end(kAllKinds) ? "part of an unknown kind" : kind_name(*kind),
               line(component.name));
    fmt::print("  summary       {}\n", line(component.summary));
    fmt::print("  file          {}\n", path);
    fmt::print("  sha256        {}\n", plugin_sha256(bytes));
    fmt::print("  plugin        {} {}, {}, {}, ABI {}.{}\n", line(manifest->id), line(manifest->version),
               line(manifest->vendor), line(manifest->license), MORTISE_ABI_MAJOR, manifest->abi_minor);
    fmt::print("  capabilities  {}\n", join_names(capability_words(component.capabilities)));
    for (const std::string& id : numerics_ids(component.numerics_id, component.capabilities)) {
      fmt::print("  numerics      {}\n", line(id));
    }
    try {
      print_options(OptionsSchema(component.options_schema));
    } catch (const Error& error) {
      fmt::print("  options       cannot be read: {}\n", error.what());
    }
  }
}

void show_plugin(const std::string& wanted, bool runs) {
  if (names_file(wanted) && !runs) return show_manifest(wanted);
  if (names_file(wanted)) {
    const PluginFile& file = load_plugin_file(wanted);
    for (const Component& component : file.components) print_component(component, file);
    return;
  }
  const PluginCatalog catalog = PluginCatalog::standard();
  const auto found = catalog.find(wanted);
  if (found.components.empty()) catalog.fail_unknown(wanted, found);
  for (const Component* component : found.components) print_component(*component, load_plugin_file(component->file));
}

}  // namespace

void add_plugin_info_command(CLI::App& plugin) {
  CLI::App* info = plugin.add_subcommand("info", "capabilities and options of one plugin");
  auto wanted = std::make_shared<std::string>();
  auto runs = std::make_shared<bool>(false);
  info->add_option("plugin", *wanted, "name of a plugin, or a plugin file, whose code does not run")->required();
  info->add_flag("--run", *runs, "load a file that you trust, to show what a device says about this machine as well");
  info->callback([wanted, runs] { show_plugin(*wanted, *runs); });
}

}  // namespace mortise
