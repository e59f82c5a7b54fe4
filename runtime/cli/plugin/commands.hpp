// runtime/cli/plugin/commands.hpp: the sub-commands of `mortise plugin`. Each function adds one, like those of
// cli/commands.hpp.
#pragma once

#include <CLI/App.hpp>

namespace mortise {

void add_plugin_bench_command(CLI::App& plugin);    // plugin bench
void add_plugin_check_command(CLI::App& plugin);    // plugin check
void add_plugin_info_command(CLI::App& plugin);     // plugin info
void add_plugin_install_command(CLI::App& plugin);  // plugin install
void add_plugin_list_command(CLI::App& plugin);     // plugin list
void add_plugin_new_command(CLI::App& plugin);      // plugin new
void add_plugin_publish_command(CLI::App& plugin);  // plugin publish
void add_plugin_replay_command(CLI::App& plugin);   // plugin replay
void add_plugin_search_command(CLI::App& plugin);   // plugin search
void add_plugin_trust_command(CLI::App& plugin);    // plugin trust

}  // namespace mortise
