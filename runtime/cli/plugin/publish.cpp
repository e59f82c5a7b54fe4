// runtime/cli/plugin/publish.cpp: `mortise plugin publish`: checks, signs and adds a plugin to an index.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/plugin/check_options.hpp"
#include "cli/plugin/commands.hpp"
#include "cli/plugin/device_numerics.hpp"
#include "cli/plugin/index_options.hpp"
#include "cli/plugin/passed_check.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"
#include "loader/module_manifest.hpp"
#include "loader/plugin_file.hpp"
#include "plugin_index/publication.hpp"
#include "plugin_index/signature.hpp"
#include "plugin_index/whole_file.hpp"

namespace mortise {
namespace {

struct PublishOptions {
  std::string file, key, index, level = "quick", options;
};

std::vector<std::string> numerics_of(const Component& component) {
  std::vector<std::string> ids = numerics_ids(component.numerics_id, component.capabilities);
  if (component.kind != PartKind::kDevice) return ids;
  try {
    for (const auto& [id, dtype] : device_numerics(open_device(component))) ids.push_back(id);
  } catch (const Error& error) {
    fmt::print(stderr, "mortise: the entry has no numerics ids of {}, which cannot be used here: {}\n",
               component.label(), error.what());
  }
  return ids;
}

void refuse_built_in_name(const std::string& file, const std::string& name) {
  const PluginCatalog::Found found = PluginCatalog({PluginCatalog::program_folder()}).find(name);
  if (found.components.empty()) return;
  fail(
      "{}: '{}' is the name of a built-in {}, which scripts find first, and `mortise plugin install` refuses the name "
      "without --to; give the component another name and build it again",
      file, name, kind_name(found.components.front()->kind));
}

void publish_plugin(const PublishOptions& options) {
  check_is_plugin_file("plugin publish", options.file);
  if (options.index.find("://") != std::string::npos) {
    fail("--index {}: publish writes into a folder of this machine; a web server can then serve it", options.index);
  }
  const std::string pem = read_whole_file(options.key, kMaxKeyBytes);
  try {
    sign("", pem);  // so that a bad key is reported before the check, which takes seconds
  } catch (const Error& error) {
    fail("{}: {}", options.key, error.what());
  }
  if (const auto manifest = manifest_if_readable(options.file)) {  // else the check says what is wrong with the file
    for (const ComponentManifest& component : manifest->components) refuse_built_in_name(options.file, component.name);
  }
  IndexEntry entry;
  entry.check = passed_check(options.file, options.file, options.level,
                             options.options.empty() ? nlohmann::json::object() : read_plugin_options(options.options));
  const std::vector<char> bytes = read_plugin_bytes(options.file);
  const PluginFile& file = load_plugin_file(options.file);
  entry.id = file.id;
  entry.version = file.version;
  entry.vendor = file.vendor;
  entry.license = file.license;
  entry.abi_major = MORTISE_ABI_MAJOR;
  entry.abi_minor = file.abi_minor;
  entry.platform = this_platform();
  for (const Component& component : file.components) {
    refuse_built_in_name(options.file, component.name);  // for files without a manifest
    entry.parts.push_back({component.name, component.kind, component.summary, numerics_of(component)});
  }
  fmt::print("published  {}\n", publish(options.index, std::move(entry), {bytes.data(), bytes.size()}, pem).string());
}

}  // namespace

void add_plugin_publish_command(CLI::App& plugin) {
  CLI::App* command = plugin.add_subcommand("publish", "check a plugin, sign it and add it to an index in a folder");
  auto options = std::make_shared<PublishOptions>();
  command->add_option("file", options->file, "the plugin file")->required();
  command->add_option("--key", options->key, "PEM file with your private key (openssl genpkey -algorithm ed25519)")
      ->required();
  command->add_option("--index", options->index, "folder of the index, which any web server can serve")
      ->required()
      ->check(kNotEmpty);
  command->add_option("--level", options->level, "of the check: quick or full")
      ->check(CLI::IsMember({"quick", "full"}))
      ->capture_default_str();
  command->add_option("--options", options->options,
                      "the component's options for the check as a JSON object, for those without a default");
  command->callback([options] { publish_plugin(*options); });
}

}  // namespace mortise
