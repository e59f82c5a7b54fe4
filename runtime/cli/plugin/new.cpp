// runtime/cli/plugin/new.cpp: `mortise plugin new KIND NAME`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/plugin/commands.hpp"
#include "cli/plugin/project.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"

namespace mortise {
namespace {

struct NewOptions {
  PluginProject project;
  std::string folder;
  bool c = false;
};

// Returns where find_package finds the API of an installed program by itself; "" if it does, or if nothing is
// installed.
std::string prefix_hint() {
  const std::filesystem::path prefix = executable_folder().parent_path();
  std::error_code error;
  const bool installed = std::filesystem::exists(prefix / "include" / "mortise" / "abi.h", error);
  if (!installed) return "CMAKE_PREFIX_PATH=FOLDER_OF_AN_INSTALLED_MORTISE ";
  return prefix == "/usr" || prefix == "/usr/local" ? "" : "CMAKE_PREFIX_PATH=" + prefix.string() + " ";
}

void make_project(NewOptions& options) {
  options.project.language = options.c ? ProjectLanguage::kC : ProjectLanguage::kCxx;
  options.project.folder = options.folder.empty() ? options.project.name : options.folder;
  const auto files = write_project(options.project);
  const std::string folder = options.project.folder.string();
  for (const auto& file : files) fmt::print("{}\n", (options.project.folder / file).string());
  fmt::print(stderr,
             "next: cd {} && {}cmake --preset release && cmake --build --preset release && ctest --preset release\n",
             folder, prefix_hint());
}

}  // namespace

void add_plugin_new_command(CLI::App& plugin) {
  CLI::App* make = plugin.add_subcommand("new", "a project for a plugin of your own, ready to build and check");
  auto options = std::make_shared<NewOptions>();
  make->add_option("kind", options->project.kind, "device, model, attention, proposer or scheduler")->required();
  make->add_option("name", options->project.name, "name of the plugin: lower-case letters, digits, underscores")
      ->required();
  make->add_flag("--c", options->c, "in plain C; without it in C++");
  make->add_option("--dir", options->folder, "the project's folder; without it NAME in the current folder");
  make->callback([options] { make_project(*options); });
}

}  // namespace mortise
