// runtime/cli/repl/line_editor.hpp: reads lines from a person at a terminal, using libedit: editing, history, search
// (Ctrl-R), TAB.
//
// Handles what libedit does not: pastes as a whole (bracketed paste: a newline in one does not send it), bytes that are
// not UTF-8, and signals. libedit's own signal handlers are not used, because they pass each signal on to the whole
// process group.
#pragma once

#include <histedit.h>

#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "cli/repl/line_source.hpp"
#include "cli/repl/suggestions.hpp"

namespace mortise {

// Reads lines from the terminal with libedit. At most one exists at a time, because signal handlers and the terminal
// belong to the process. Used by one thread. Invariant: between two reads the terminal has the settings that it had
// before.
class LineEditor : public LineSource {
 public:
  using Suggester = std::function<Suggestions(std::string_view before_cursor)>;

  // Reads standard input; prompts and echo go to the terminal `screen_fd`. Reads ~/.editrc. Throws an Error if libedit
  // cannot be started.
  // REQUIRES: an InterruptGuard lives while it reads.
  LineEditor(int screen_fd, Suggester suggester);
  ~LineEditor() override;
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  std::optional<Line> read(const std::string& prompt) override;
  void remember(const std::string& entry) override;

 private:
  // Functions for libedit, which finds the object through its client data.
  static char* prompt_of(EditLine* el);
  static int read_character(EditLine* el, wchar_t* character);
  static unsigned char complete(EditLine* el, int key);
  static unsigned char paste(EditLine* el, int key);

  void bind_keys();
  int next_character(wchar_t* character);
  bool read_bytes();         // returns false at the end of the input
  bool attend_to_signals();  // returns false if Ctrl-C ended the line
  void resume();
  void redraw_after_resize();
  int rows_above_cursor(int columns) const;
  unsigned char offer(const Suggestions& suggestions, std::size_t cursor);
  void list(const Suggestions& suggestions);
  void enter_terminal();  // adds a setting that libedit lacks: bracketed paste
  void leave_terminal();

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct EndEdit {
    void operator()(EditLine* el) const { el_end(el); }
  };
  struct EndHistory {
    void operator()(History* history) const { history_end(history); }
  };

  Suggester suggester_;
  std::unique_ptr<std::FILE, CloseFile> screen_;
  std::unique_ptr<History, EndHistory> history_;
  std::unique_ptr<EditLine, EndEdit> el_;
  bool has_escapes_;  // whether the terminal understands control sequences
  int columns_ = 80;
  std::string prompt_;
  std::string bytes_;               // read, but not a complete character yet
  std::deque<wchar_t> characters_;  // read, but not passed to libedit yet
  std::size_t num_replaced_ = 0;
  bool cancelled_ = false;
};

}  // namespace mortise
