#include "cli/repl/repl.hpp"

#include <unistd.h>

#include <memory>

#include "cli/interrupt.hpp"
#include "cli/repl/entry.hpp"
#include "cli/repl/history_file.hpp"
#include "cli/repl/line_editor.hpp"
#include "cli/repl/pipe_lines.hpp"
#include "cli/repl/state.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// Returns the terminal for the person: standard error, because standard output may be redirected to a file. nullopt: it
// is no terminal.
std::optional<int> find_screen() {
  if (isatty(STDIN_FILENO) == 0) return std::nullopt;
  for (const int descriptor : {STDERR_FILENO, STDOUT_FILENO}) {
    if (isatty(descriptor) != 0) return descriptor;
  }
  return std::nullopt;
}

// One dialogue. Used by the main thread.
class Repl {
 public:
  Repl(Session& session, nlohmann::json fields, const SamplingParams& defaults)
      : state_{session, Settings(std::move(fields), defaults, session.pipeline().assembly.dims().vocab_size),
               {},      {},
               {},      {}},
        screen_(find_screen()) {
    if (screen_) {
      source_ = std::make_unique<LineEditor>(
          *screen_, [words = command_words()](std::string_view before) { return suggest(before, words); });
      open_history();
      state_.console.say(session.pipeline().service.info().model + "; /help for help, Ctrl-D quits");
    } else {
      source_ = std::make_unique<PipeLines>(STDIN_FILENO);
    }
  }

  ReplEnd run() {
    while (!state_.quit) {
      bool more = true;
      try {
        more = take_line();
      } catch (const std::exception& error) {
        report(error.what());
      }
      if (!screen_ && InterruptGuard::interrupted()) return ReplEnd::kInterrupted;
      if (!more) break;
    }
    return failed_ && !screen_ ? ReplEnd::kSomeFailed : ReplEnd::kDone;
  }

 private:
  // Returns false at the end of the input.
  bool take_line() {
    const bool is_chat = state_.dialogue.mode == Mode::kChat;
    const std::optional<Line> line = source_->read(assembler_.is_open() ? "... " : is_chat ? "chat> " : "> ");
    if (InterruptGuard::interrupted()) {
      assembler_.clear();
      return true;
    }
    if (!line) {
      if (assembler_.is_open() && !screen_) fail_open();
      return false;
    }
    if (line->num_replaced > 0) {
      state_.console.error(
          fmt::format("{}not UTF-8; {} replaced by U+FFFD", source_->where(),
                      line->num_replaced == 1 ? "one part was" : fmt::format("{} parts were", line->num_replaced)));
    }
    const std::optional<Entry> entry = assembler_.add(line->text);
    if (!entry || is_blank(entry->text)) return true;
    remember(as_one_line(*entry));
    run_entry(*entry);
    return true;
  }

  void run_entry(const Entry& entry) {
    if (entry.is_block || !entry.text.starts_with('/')) return answer(state_, entry.text);
    if (entry.text.starts_with("//")) return answer(state_, entry.text.substr(1));
    run_command(state_, entry.text);
  }

  [[noreturn]] void fail_open() {
    const bool in_block = assembler_.in_block();
    assembler_.clear();
    fail("the input ended {}; nothing of it was sent",
         in_block ? "in a block: its closing line of \"\"\" is missing" : "a line is missing after a backslash");
  }

  void report(const std::string& text) {
    failed_ = true;
    state_.console.error(source_->where() + text);
  }

  void open_history() {
    const auto path = HistoryFile::standard_path();
    if (!path) return;
    history_.emplace(*path);
    keep_history([&] {
      for (const std::string& entry : history_->load()) source_->remember(entry);
    });
  }

  void remember(const std::string& entry) {
    source_->remember(entry);
    if (entry == last_entry_) return;  // the history in memory drops repeated entries, too
    last_entry_ = entry;
    keep_history([&] { history_->append(entry); });
  }

  // Reports a problem with the history file once; the dialogue continues without it.
  template <typename Action>
  void keep_history(Action action) {
    if (!history_) return;
    try {
      action();
    } catch (const std::exception& error) {
      history_.reset();
      state_.console.error(std::string("the history is not saved: ") + error.what());
    }
  }

  ReplState state_;
  std::optional<int> screen_;
  std::unique_ptr<LineSource> source_;
  std::optional<HistoryFile> history_;
  std::string last_entry_;
  EntryAssembler assembler_;
  bool failed_ = false;
};

}  // namespace

ReplEnd run_repl(Session& session, nlohmann::json fields, const SamplingParams& defaults) {
  const InterruptGuard guard;
  return Repl(session, std::move(fields), defaults).run();
}

}  // namespace mortise
