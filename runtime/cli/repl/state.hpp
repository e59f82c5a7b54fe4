// runtime/cli/repl/state.hpp: the state of a dialogue, and the commands that work on it. Internal to this folder.
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
  SpeculationChoice speculation = {};               // for the following prompts, set by /proposer
  std::optional<std::filesystem::path> file = {};   // default of /save: the file last saved or loaded
  std::optional<Request> last_request = {};         // has the seed that it ran with; /diff repeats it
  bool shows_drafts = false;                        // /show drafts
  std::optional<std::filesystem::path> trace = {};  // file of the last /trace, which may be overwritten
  bool quit = false;
};

struct Command {
  const char* name;       // "/set"
  const char* arguments;  // "[FIELD [VALUE]]"
  const char* summary;    // one line for /help
  const char* details;    // more lines for /help NAME, or ""
  Argument completes;     // suggestions for TAB after the command
  // `rest` is the text after the name, without white space at both ends, unless the command needs it unchanged.
  void (*run)(ReplState& state, const std::string& rest);
};

// Returns one entry for each line in repl/commands.cpp.
std::span<const Command> all_commands();

// Runs "/name rest". Throws an Error if there is no such command, or if it fails, without changing anything.
void run_command(ReplState& state, const std::string& line);

// Finds a command by its name, with or without the slash. Throws an Error that suggests the nearest name.
const Command& find_command(const std::string& name);

// Returns the words that TAB suggests.
Words command_words();

// Sends a prompt, or a message in a chat, and prints the answer as it comes.
void answer(ReplState& state, const std::string& text);

// Throws an Error if the pipeline has no chat template.
void check_chat(ReplState& state);

// Commands that are defined in other files.
void show_plugins(ReplState& state, const std::string& name);
void change_proposer(ReplState& state, const std::string& text);
void swap_part(ReplState& state, const std::string& text);
void diff(ReplState& state, const std::string& text);

}  // namespace mortise
