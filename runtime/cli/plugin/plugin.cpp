// runtime/cli/plugin/plugin.cpp: `mortise plugin`, with a file for each of its sub-commands.
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "cli/plugin/commands.hpp"

namespace mortise {

void add_plugin_command(CLI::App& app) {
  CLI::App* plugin =
      app.add_subcommand("plugin", "find, install, describe, check, measure, create and publish plugins");
  plugin->require_subcommand(1);
  add_plugin_list_command(*plugin);
  add_plugin_info_command(*plugin);
  add_plugin_check_command(*plugin);
  add_plugin_bench_command(*plugin);
  add_plugin_new_command(*plugin);
  add_plugin_replay_command(*plugin);
  add_plugin_search_command(*plugin);
  add_plugin_install_command(*plugin);
  add_plugin_trust_command(*plugin);
  add_plugin_publish_command(*plugin);
}

}  // namespace mortise
