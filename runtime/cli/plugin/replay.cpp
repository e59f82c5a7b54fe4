// runtime/cli/plugin/replay.cpp: `mortise plugin replay RECORD FILE`: makes the calls that --record-abi recorded on a
// plugin file.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <string>

#include "abi_record/call_replay.hpp"
#include "cli/plugin/commands.hpp"
#include "error.hpp"

namespace mortise {
namespace {

struct ReplayArguments {
  std::string record, plugin;
};

void replay_plugin(const ReplayArguments& arguments) {
  const CallReplay replay = replay_calls(arguments.record, arguments.plugin);
  if (const auto& difference = replay.difference) {
    fmt::print("call {} differs: {}: {}\n", difference->call, difference->function, difference->text);
    std::fflush(stdout);
    throw CLI::RuntimeError(EXIT_FAILURE);
  }
  fmt::print("{} calls: all outputs are equal\n", replay.num_calls);
  if (replay.ends_in_call) fmt::print("The recorded program ended in the last call, which returned here.\n");
}

}  // namespace

void add_plugin_replay_command(CLI::App& plugin) {
  CLI::App* command = plugin.add_subcommand(
      "replay", "repeat the calls that --record-abi wrote on a build of the plugin, without the engine");
  auto arguments = std::make_shared<ReplayArguments>();
  command->add_option("record", arguments->record, "the file of --record-abi")->required();
  command->add_option("file", arguments->plugin, "the plugin file")->required();
  command->callback([arguments] { replay_plugin(*arguments); });
}

}  // namespace mortise
