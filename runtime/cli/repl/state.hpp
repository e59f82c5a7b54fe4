// runtime/cli/repl/state.hpp: what the commands of a dialogue work on. Internal to this folder.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "cli/repl/console.hpp"
#include "cli/repl/dialogue.hpp"
#include "cli/repl/figures.hpp"
#include "cli/repl/settings.hpp"
#include "cli/repl/suggestions.hpp"
#include "cli/session.hpp"

namespace mortise {

struct ReplState {
  Session& session;
  Settings settings;
  Dialogue dialogue;
  Figures figures;
  Console console;
  SpeculationChoice speculation = {};               // of the prompts that follow: /proposer
  std::optional<std::filesystem::path> file = {};   // that /save without a name writes: the last saved or loaded
  std::optional<Request> last_request = {};         // with the seed that it ran with: what /diff runs again
  bool shows_drafts = false;                        // /show drafts
  std::optional<std::filesystem::path> trace = {};  // the file of the last /trace, which may be written again
  bool quit = false;
};

struct Command {
  const char* name;       // "/set"
  const char* arguments;  // "[FIELD [VALUE]]"
  const char* summary;    // one line for /help
  const char* details;    // more lines for /help NAME, or ""
  Argument completes;     // what TAB offers behind it
  // `rest` is what follows the name, without white space at both ends unless the command wants it as it stands.
  void (*run)(ReplState& state, const std::string& rest);
};

// One line of repl/commands.cpp each.
std::span<const Command> all_commands();

// Runs "/name rest". Throws an Error when there is no such command, or when it fails; then nothing has changed.
void run_command(ReplState& state, const std::string& line);

// The command of that name, with or without its slash. Throws an Error with the nearest name.
const Command& find_command(const std::string& name);

// What TAB knows.
Words command_words();

// Sends a prompt, or in a chat a message, and prints the answer as it comes.
void answer(ReplState& state, const std::string& text);

// Throws an Error when the pipeline has no chat template.
void check_chat(ReplState& state);

// Handlers that have files of their own.
void show_plugins(ReplState& state, const std::string& name);
void change_proposer(ReplState& state, const std::string& text);
void swap_part(ReplState& state, const std::string& text);
void diff(ReplState& state, const std::string& text);

}  // namespace mortise
