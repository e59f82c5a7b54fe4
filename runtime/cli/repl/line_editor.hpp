// runtime/cli/repl/line_editor.hpp: lines from a person at a terminal, by libedit: editing, history, search (Ctrl-R),
// TAB.
//
// What libedit does not do is here: whole pastes (bracketed paste: newlines in one do not send it), bytes that are not
// UTF-8, and signals. libedit's own handlers are not used: they pass each signal on to the whole process group.
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

// One at a time: signal handlers and the terminal belong to the process.
class LineEditor : public LineSource {
 public:
  using Suggester = std::function<Suggestions(std::string_view before_cursor)>;

  // Reads standard input; prompts and echo go to the terminal `screen_fd`. ~/.editrc is honoured. Throws an Error when
  // libedit cannot be started. REQUIRES: an InterruptGuard lives while it reads.
  LineEditor(int screen_fd, Suggester suggester);
  ~LineEditor() override;
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  std::optional<Line> read(const std::string& prompt) override;
  void remember(const std::string& entry) override;

 private:
  // What libedit calls; `self` is found through its client data.
  static char* prompt_of(EditLine* el);
  static int read_character(EditLine* el, wchar_t* character);
  static unsigned char complete(EditLine* el, int key);
  static unsigned char paste(EditLine* el, int key);

  void bind_keys();
  int next_character(wchar_t* character);
  bool read_bytes();         // false at the end of the input
  bool attend_to_signals();  // false when the line is over: Ctrl-C
  void resume();
  void redraw_after_resize();
  int rows_above_cursor(int columns) const;
  unsigned char offer(const Suggestions& suggestions, std::size_t cursor);
  void list(const Suggestions& suggestions);
  void enter_terminal();  // what is not libedit's: bracketed paste
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
  bool has_escapes_;  // the terminal understands control sequences
  int columns_ = 80;
  std::string prompt_;
  std::string bytes_;               // read, and not yet a character
  std::deque<wchar_t> characters_;  // not yet taken by libedit
  std::size_t num_replaced_ = 0;
  bool cancelled_ = false;
};

}  // namespace mortise
