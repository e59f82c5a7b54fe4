// runtime/cli/repl/commands.cpp: the table of commands, and those commands that are short.
#include <algorithm>

#include "cli/repl/entry.hpp"
#include "cli/repl/score.hpp"
#include "cli/repl/state.hpp"
#include "counted.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"
#include "loader/nearest.hpp"
#include "pipeline/table_schemas.hpp"

namespace mortise {
namespace {

void no_argument(const char* name, const std::string& rest) {
  if (!rest.empty()) fail("{} has no arguments, got '{}'", name, rest);
}

void set(ReplState& state, const std::string& rest) {
  if (rest.empty()) return state.console.say(state.settings.table());
  const std::size_t space = rest.find_first_of(" \t\n");
  const std::string name = rest.substr(0, space);
  if (space != std::string::npos) state.settings.set(name, trimmed(std::string_view(rest).substr(space)));
  state.console.say(state.settings.show(name));
}

void seed(ReplState& state, const std::string& rest) {
  if (!rest.empty()) state.settings.set("seed", rest == "none" ? "default" : rest);
  const bool is_set = state.settings.fields().contains("seed");
  state.console.say(is_set ? state.settings.show("seed") : "no seed: each answer draws one and shows it");
}

void clear(ReplState& state, const std::string& rest) {
  no_argument("/clear", rest);
  state.dialogue.messages = nlohmann::json::array();
  state.console.say("the dialogue is empty");
}

std::string num_messages(const Dialogue& dialogue) {
  const std::size_t n = dialogue.messages.size();
  return n == 0 ? "no messages yet" : fmt::format("{} message{}", n, n == 1 ? "" : "s");
}

void chat(ReplState& state, const std::string& rest) {
  if (rest == "clear") return clear(state, "");
  if (!rest.empty()) fail("/chat can be followed by 'clear' or nothing, got '{}'; /complete ends the chat", rest);
  // Checks for a template now, so that a missing one is reported before a message is typed.
  check_chat(state);
  state.dialogue.mode = Mode::kChat;
  state.console.say(
      fmt::format("chat is on: {}; /complete ends it, /chat clear starts again", num_messages(state.dialogue)));
}

void complete_command(ReplState& state, const std::string& rest) {
  no_argument("/complete", rest);
  state.dialogue.mode = Mode::kComplete;
  state.console.say("chat is off: the model continues each prompt; /chat continues the dialogue");
}

void score(ReplState& state, const std::string& rest) {
  OpenPipeline& pipeline = state.session.pipeline();
  const Tokenizer& tokenizer = pipeline.assembly.tokenizer();
  Request request = score_request(parse_score(rest), tokenizer);
  const Generation scored = generate(pipeline.engine, std::move(request), [](const Delta&) {});
  if (scored.last.finish == FinishReason::kAborted) return state.console.say("stopped");
  state.console.say(score_table(scored.last.prompt, tokenizer));
}

void stats(ReplState& state, const std::string& rest) {
  no_argument("/stats", rest);
  const OpenPipeline& pipeline = state.session.pipeline();
  state.console.say(state.figures.text(pipeline.engine.stats(), pipeline.assembly.limits()));
}

// Returns the file name in an argument, which may be quoted and begin with "~/".
std::filesystem::path file_of(const std::string& rest) {
  std::string_view name = rest;
  if (name.size() >= 2 && (name.front() == '"' || name.front() == '\'') && name.front() == name.back()) {
    name = name.substr(1, name.size() - 2);
  }
  return expand_home(name);
}

void show(ReplState& state, const std::string& rest) {
  if (rest == "drafts" || rest == "drafts on") {
    state.shows_drafts = true;
  } else if (rest == "drafts off") {
    state.shows_drafts = false;
  } else if (!rest.empty()) {
    fail("/show must be followed by 'drafts on' or 'drafts off', got '{}'", rest);
  }
  if (!state.shows_drafts) return state.console.say("drafts are not shown; /show drafts marks them");
  state.console.say("drafts are shown; /show drafts off ends it");
  state.console.say_legend();
}

void begin_trace(ReplState& state, const std::filesystem::path& file) {
  const std::filesystem::path whole = std::filesystem::absolute(file).lexically_normal();
  std::error_code absent;
  const bool has_content =
      std::filesystem::is_regular_file(whole, absent) && std::filesystem::file_size(whole, absent) > 0;
  if (has_content && state.trace != whole)
    fail("{}: exists already; give a trace the name of a new file", file.string());
  state.session.start_trace(whole.string());
  state.trace = whole;
  state.console.say(fmt::format("tracing to {}; /trace ends it", file.string()));
}

void trace(ReplState& state, const std::string& rest) {
  if (!rest.empty()) return begin_trace(state, file_of(rest));
  const std::optional<std::string> file = state.session.end_trace();
  if (!file) fail("no trace is being written; /trace FILE begins one");
  state.console.say(fmt::format("the trace is in {}; open it in https://ui.perfetto.dev or chrome://tracing", *file));
}

void write(ReplState& state, const std::string& rest, const char* command, bool overwrite) {
  if (rest.empty() && !state.file) fail("{} needs the name of a file, as in: {} story.json", command, command);
  const std::filesystem::path file = rest.empty() ? *state.file : file_of(rest);
  // The file that this dialogue was loaded from or saved to may be overwritten.
  const std::filesystem::path whole = std::filesystem::absolute(file).lexically_normal();
  const bool is_own = state.file == whole;
  const ServiceInfo& info = state.session.pipeline().service.info();
  save_dialogue({state.dialogue, state.settings.fields(), info.model, info.system_fingerprint}, file,
                overwrite || is_own);
  state.file = whole;
  state.console.say(fmt::format("saved to {}: {}, {} completion{}", file.string(), num_messages(state.dialogue),
                                state.dialogue.completions.size(), state.dialogue.completions.size() == 1 ? "" : "s"));
}

void save(ReplState& state, const std::string& rest) {
  write(state, rest, "/save", /*overwrite=*/false);
}

void save_over(ReplState& state, const std::string& rest) {
  write(state, rest, "/save!", /*overwrite=*/true);
}

void load(ReplState& state, const std::string& rest) {
  if (rest.empty()) fail("/load needs the name of a file that /save wrote");
  const std::filesystem::path file = file_of(rest);
  SavedDialogue saved = load_dialogue(file);
  if (saved.dialogue.mode == Mode::kChat) check_chat(state);
  try {
    state.settings.replace(std::move(saved.settings));
  } catch (const Error& error) {
    fail("{}: settings: {}", file.string(), error.what());
  }
  state.dialogue = std::move(saved.dialogue);
  state.file = std::filesystem::absolute(file).lexically_normal();
  state.console.say(fmt::format("loaded {}: {}, {}, settings {}", file.string(), num_messages(state.dialogue),
                                counted(state.dialogue.completions.size(), "completion"),
                                state.settings.fields().dump()));
  const ServiceInfo& info = state.session.pipeline().service.info();
  if (saved.system_fingerprint != info.system_fingerprint) {
    state.console.say(fmt::format("it was made by {} ({}); this is {} ({}), whose tokens may differ", saved.model,
                                  saved.system_fingerprint, info.model, info.system_fingerprint));
  }
}

void help(ReplState& state, const std::string& rest) {
  if (!rest.empty()) {
    const Command& command = find_command(rest);
    return state.console.say(
        fmt::format("{} {}\n  {}\n{}", command.name, command.arguments, command.summary, command.details));
  }
  std::string text = "A line is a prompt that the model continues, or in a chat a message. These are commands:\n";
  for (const Command& command : all_commands()) {
    text += fmt::format("  {:<42}  {}\n", fmt::format("{} {}", command.name, command.arguments), command.summary);
  }
  text +=
      "A backslash at the end of a line continues it in the next; lines between two lines of \"\"\" are one prompt; "
      "// sends\n"
      "text that begins with /. TAB completes commands; Ctrl-R searches the history, Ctrl-C stops an answer, "
      "Ctrl-D quits.\n";
  state.console.say(text);
}

void quit(ReplState& state, const std::string& rest) {
  no_argument("/quit", rest);
  state.quit = true;
}

constexpr Command kCommands[] = {
    {"/set", "[FIELD [VALUE]]", "shows or changes how answers are made: temperature, max_tokens, stop, ...",
     "  /set                    all fields; * marks fields that are set\n"
     "  /set temperature 0.7    numbers, true, false and lists are JSON\n"
     "  /set stop The end.      text needs no quotes; \"\\n\" between double quotes is a newline\n"
     "  /set top_p default      unsets it: the model's own value, or none\n",
     Argument::kField, set},
    {"/seed", "[N | none]", "the same seed gives the same answer; none: each draws its own",
     "  Without an argument: shows the seed. The figures of each answer include the seed that made it.\n",
     Argument::kSeed, seed},
    {"/chat", "[clear]", "lines become messages of a dialogue; clear forgets what was said",
     "  Needs a chat template, of the checkpoint or of the pipeline's script. /complete keeps the dialogue.\n",
     Argument::kChat, chat},
    {"/complete", "", "the model continues each line; the dialogue waits for /chat", "", Argument::kNone,
     complete_command},
    {"/clear", "", "forgets the dialogue, as /chat clear", "", Argument::kNone, clear},
    {"/score", "A | B", "log probability and rank of each token of B given A",
     "  /score The sky is | blue     scores \" blue\" after \"The sky is\": "
     "the space before the bar is dropped, the one\n"
     "                               after it belongs to B\n"
     "  /score 12 + 30 =|42          without spaces: B follows A at once\n"
     "  \\| is a bar of the text. Plain text, in a chat too.\n",
     Argument::kNone, score},
    {"/proposer", "[NAME [OPTION=VALUE ...] | first_of | none]", "shows or changes the part that drafts tokens",
     "  A NAME that the pipeline has drafts from the next prompt on; first_of: all proposers of the pipeline, in "
     "order; none: "
     "no\n"
     "  drafts. With options, or with another plugin's name or file, it is /swap proposer. A VALUE is JSON or plain "
     "text.\n"
     "  /plugins NAME shows the options.\n",
     Argument::kProposer, change_proposer},
    {"/swap", "[KEY PLUGIN [{option = value}] [verify_steps = N]]", "shows the parts, or replaces one",
     "  /swap attention cascade {block_size = 16}    KEY and options as in a script: device, model, attention, "
     "scheduler,\n"
     "                                               proposer\n"
     "  /swap scheduler ./mine.so                    a file, even one that was rebuilt under the same name\n"
     "  /swap kv_cache {memory = \"64MiB\"}           kv_cache and speculation are tables without a plugin\n"
     "  /swap proposer first_of {ngram {}, draft_model {path = \"small\"}}\n"
     "                                               several: for each sequence, the first that has drafts\n"
     "  /swap attention cascade {} verify_steps = 50 the last prompt runs again, unseen, until 50 steps of old and "
     "new\n"
     "                                               part were equal bit by bit; a difference refuses the swap\n"
     "  If the part cannot be opened, or would make other tokens, the pipeline continues as it was. Settings and "
     "dialogue\n"
     "  stay. Options that are left out have their defaults; a model keeps its path.\n",
     Argument::kSwap, swap_part},
    {"/diff", "[A] B", "runs the last prompt under two sets of parts: are the tokens the same?",
     "  /diff \"attention cascade {block_size = 16}\"    the parts as they are, and with this change\n"
     "  /diff \"scheduler fcfs {max_num_seqs = 1}; proposer none\" other.lua\n"
     "                                                  changes, or a script; now: the parts as they are\n"
     "  Seed and settings are those of the last answer. Tokens and log probabilities are compared bit by bit, and the "
     "first\n"
     "  that differs is shown. Neither run uses the prefix cache, which is empty afterwards. The parts of before come "
     "back.\n",
     Argument::kDiff, diff},
    {"/show", "[drafts [on | off]]", "marks drafted and accepted tokens in answers",
     "  Accepted drafts, the bonus token after them, and tokens in place of a rejected draft have shades. "
     "Without\n"
     "  colours (NO_COLOR, no terminal) they stand between brackets. It changes what is shown, and no token.\n",
     Argument::kShow, show},
    {"/stats", "", "tokens/s, time to first token, KV blocks, accepted drafts by position", "", Argument::kNone, stats},
    {"/trace", "[FILE]", "starts a Chrome trace of the engine's steps; without a name: ends it",
     "  As --trace does for the whole run. Open the file in https://ui.perfetto.dev or chrome://tracing.\n",
     Argument::kFile, trace},
    {"/plugins", "[NAME]", "what is installed, * for what is in use; NAME: its options", "", Argument::kPlugin,
     show_plugins},
    {"/save", "[FILE]", "writes dialogue and settings as JSON; does not overwrite another file",
     "  Without a name: to the file that was last saved or loaded.\n", Argument::kFile, save},
    {"/save!", "[FILE]", "the same, but overwrites the file", "", Argument::kFile, save_over},
    {"/load", "FILE", "restores dialogue and settings from a file that /save wrote", "", Argument::kFile, load},
    {"/help", "[COMMAND]", "shows this list, or more about one command", "", Argument::kCommand, help},
    {"/quit", "", "ends, as Ctrl-D does", "", Argument::kNone, quit},
};

// Returns the option's values as a user can type them: a text without quotes, unless it would then mean something else.
std::vector<std::string> value_texts(const Option& option) {
  std::vector<std::string> texts;
  for (const nlohmann::json& value : option.values) {
    const std::string plain = value.is_string() ? value.get<std::string>() : "";
    const bool needs_quotes = plain.find_first_of(" \t\n\"") != std::string::npos || nlohmann::json::accept(plain);
    texts.push_back(plain.empty() || needs_quotes ? value.dump() : plain);
  }
  return texts;
}

PartWords words_of(std::string key, std::string name, const OptionsSchema& schema) {
  PartWords part{std::move(key), std::move(name), {}};
  for (const Option& option : schema.options()) {
    part.options.push_back({option.name, value_texts(option), option.is_path});
  }
  return part;
}

std::vector<PartWords> part_words() {
  std::vector<PartWords> words = {words_of("kv_cache", "", kv_cache_schema()),
                                  words_of("speculation", "", speculation_schema())};
  for (const PluginFile* file : PluginCatalog::standard().list().files) {
    for (const Component& component : file->components) {
      words.push_back(words_of(kind_name(component.kind), component.name, component.schema));
    }
  }
  return words;
}

std::vector<std::string> plugin_names() {
  std::vector<std::string> names;
  for (const PluginFile* file : PluginCatalog::standard().list().files) {
    for (const Component& component : file->components) names.push_back(component.name);
  }
  return names;
}

}  // namespace

std::span<const Command> all_commands() {
  return kCommands;
}

const Command& find_command(const std::string& name) {
  const std::string with_slash = name.starts_with('/') ? name : "/" + name;
  std::vector<std::string> names;
  for (const Command& command : all_commands()) {
    if (command.name == with_slash) return command;
    names.emplace_back(command.name);
  }
  fail("unknown command {}{}{} /help lists all commands, and // sends text that begins with /", with_slash,
       did_you_mean(with_slash, names), nearest_name(with_slash, names) ? "" : ";");
}

void run_command(ReplState& state, const std::string& line) {
  const std::size_t end = line.find_first_of(" \t\n");
  const Command& command = find_command(line.substr(0, end));
  const std::string_view rest = end == std::string::npos ? "" : std::string_view(line).substr(end + 1);
  // In /score, white space belongs to the text.
  command.run(state, std::string(command.run == score ? rest : trimmed(rest)));
}

Words command_words() {
  Words words;
  for (const Command& command : all_commands()) words.commands.emplace_back(command.name, command.completes);
  words.fields = Settings::words();
  words.plugins = plugin_names;
  words.parts = part_words;
  return words;
}

}  // namespace mortise
