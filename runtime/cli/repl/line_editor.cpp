#include "cli/repl/line_editor.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <cwchar>

#include "cli/interrupt.hpp"
#include "cli/repl/history_file.hpp"
#include "cli/repl/pipe_lines.hpp"
#include "cli/repl/terminal.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise {
namespace {

constexpr std::size_t kMaxListed = 100;  // suggestions shown on the screen

std::size_t num_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

LineEditor::LineEditor(int screen_fd, Suggester suggester)
    : suggester_(std::move(suggester)), has_escapes_(takes_control_sequences()) {
  use_utf8_locale();
  // The editor has a buffered stream of its own, because libedit writes single characters, which unbuffered standard
  // error would send one by one.
  screen_.reset(::fdopen(::dup(screen_fd), "w"));
  if (!screen_) fail("the terminal cannot be opened for writing: {}", std::strerror(errno));
  history_.reset(history_init());
  el_.reset(el_init("mortise", stdin, screen_.get(), screen_.get()));
  if (!history_ || !el_) {
    fail("libedit cannot be started; is TERM={} right?", environment::read(environment::kTerminal).value_or(""));
  }
  HistEvent event;
  history(history_.get(), &event, H_SETSIZE, static_cast<int>(HistoryFile::kMaxEntries));
  history(history_.get(), &event, H_SETUNIQUE, 1);
  EditLine* el = el_.get();
  el_set(el, EL_CLIENTDATA, this);
  el_set(el, EL_PROMPT, &LineEditor::prompt_of);
  el_set(el, EL_EDITOR, "emacs");
  el_set(el, EL_HIST, history, history_.get());
  el_set(el, EL_GETCFN, &LineEditor::read_character);
  el_set(el, EL_SIGNAL, 0);
  bind_keys();
  el_source(el, nullptr);
}

LineEditor::~LineEditor() = default;

void LineEditor::bind_keys() {
  EditLine* el = el_.get();
  el_set(el, EL_ADDFN, "mortise-complete", "completes a command", &LineEditor::complete);
  el_set(el, EL_ADDFN, "mortise-paste", "takes a bracketed paste", &LineEditor::paste);
  static constexpr std::pair<const char*, const char*> kKeys[] = {
      {"^I", "mortise-complete"},    {"\\e[200~", "mortise-paste"},     {"^R", "em-inc-search-prev"},
      {"^W", "ed-delete-prev-word"}, {"\\e[3~", "ed-delete-next-char"},  // Delete
      {"\\e[1;5C", "em-next-word"},  {"\\e[1;5D", "ed-prev-word"},       // Ctrl with the arrows
      {"\\e[1~", "ed-move-to-beg"},  {"\\e[4~", "ed-move-to-end"},       // Home and End
      {"\\e[H", "ed-move-to-beg"},   {"\\e[F", "ed-move-to-end"},
  };
  for (const auto& [key, command] : kKeys) el_set(el, EL_BIND, key, command, nullptr);
}

char* LineEditor::prompt_of(EditLine* el) {
  LineEditor* self = nullptr;
  el_get(el, EL_CLIENTDATA, &self);
  return self->prompt_.data();
}

int LineEditor::read_character(EditLine* el, wchar_t* character) {
  LineEditor* self = nullptr;
  el_get(el, EL_CLIENTDATA, &self);
  return self->next_character(character);
}

std::optional<Line> LineEditor::read(const std::string& prompt) {
  if (InterruptGuard::interrupted()) {  // text typed ahead was meant for the work that was stopped
    characters_.clear();
    bytes_.clear();
    InterruptGuard::clear();
  }
  prompt_ = prompt;
  num_replaced_ = 0;
  cancelled_ = false;
  const TerminalSignals signals;
  columns_ = columns_of(screen_.get());
  // Switches the terminal to raw mode before the prompt appears, because a user may type at once, and the terminal
  // driver must not edit, echo or convert that text.
  el_set(el_.get(), EL_PREP_TERM, 1);
  enter_terminal();
  int count = 0;
  const char* typed = el_gets(el_.get(), &count);
  leave_terminal();
  if (cancelled_) return Line{};
  if (typed == nullptr) {  // Ctrl-D, or the terminal is closed
    std::fputc('\n', screen_.get());
    std::fflush(screen_.get());
    return std::nullopt;
  }
  std::string_view text = typed;
  if (text.ends_with('\n')) text.remove_suffix(1);
  return Line{std::string(text), num_replaced_};
}

void LineEditor::remember(const std::string& entry) {
  HistEvent event;
  history(history_.get(), &event, H_ENTER, entry.c_str());
}

// --- characters ---

int LineEditor::next_character(wchar_t* character) {
  while (characters_.empty()) {
    // Until libedit has ended the line, it gets a newline for each character that it asks for, since it may be in a
    // search.
    if (cancelled_ || !attend_to_signals()) {
      *character = L'\n';
      return 1;
    }
    if (!wait_for_input(STDIN_FILENO, TerminalSignals::any)) continue;
    if (!read_bytes()) {
      *character = L'\0';
      return 0;
    }
  }
  *character = characters_.front();
  characters_.pop_front();
  return 1;
}

bool LineEditor::read_bytes() {
  std::array<char, 4096> chunk;
  const ssize_t n = ::read(STDIN_FILENO, chunk.data(), chunk.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) return false;
  bytes_.append(chunk.data(), static_cast<std::size_t>(n));
  std::string text;
  const std::size_t taken = tokenizer::append_lossy(bytes_, /*is_end=*/false, text);
  num_replaced_ += to_line(std::string_view(bytes_).substr(0, taken)).num_replaced;
  bytes_.erase(0, taken);
  for (std::size_t at = 0; at < text.size();) {
    characters_.push_back(static_cast<wchar_t>(tokenizer::next_code_point(text, at)));
  }
  return true;
}

// --- signals ---

bool LineEditor::attend_to_signals() {
  if (InterruptGuard::interrupted()) {
    cancelled_ = true;
    bytes_.clear();
    const LineInfoW* line = el_wline(el_.get());
    if (line->cursor == line->lastchar) std::fputs("^C", screen_.get());  // otherwise it would overwrite the text
    return false;
  }
  if (const int signal = TerminalSignals::take_ending()) {
    leave_terminal();
    el_set(el_.get(), EL_PREP_TERM, 0);
    std::fputc('\n', screen_.get());
    std::fflush(screen_.get());
    TerminalSignals::let_happen(signal);
    resume();
  } else if (TerminalSignals::take_continued()) {
    resume();
  }
  if (TerminalSignals::take_resized()) redraw_after_resize();
  return true;
}

// Sets the terminal up again, because after a stop it has the shell's settings.
void LineEditor::resume() {
  el_set(el_.get(), EL_PREP_TERM, 0);
  el_set(el_.get(), EL_PREP_TERM, 1);
  enter_terminal();
  el_set(el_.get(), EL_REFRESH);
}

// Returns the number of rows between the prompt and the cursor on a screen with `columns` columns.
int LineEditor::rows_above_cursor(int columns) const {
  const LineInfoW* line = el_wline(el_.get());
  int row = 0, column = 0;
  const auto put = [&](wchar_t c) {
    if (c == L'\n') {
      ++row;
      column = 0;
      return;
    }
    const int width = c == L'\t' ? 8 - column % 8 : c < L' ' ? 2 : std::max(0, ::wcwidth(c));
    column += width;
    if (column >= columns) {
      ++row;
      column = column > columns ? width : 0;
    }
  };
  for (char c : prompt_) put(static_cast<unsigned char>(c));
  for (const wchar_t* c = line->buffer; c < line->cursor; ++c) put(*c);
  return row;
}

void LineEditor::redraw_after_resize() {
  const int columns = columns_of(screen_.get());
  if (has_escapes_) {
    // After a change of width some terminals wrap the line anew, others do not. Moving up too few rows leaves a part of
    // the line on the screen, too many would erase text above it.
    const int rows = std::min(rows_above_cursor(columns_), rows_above_cursor(columns));
    std::fputc('\r', screen_.get());
    if (rows > 0) std::fprintf(screen_.get(), "\033[%dA", rows);
    std::fputs("\033[J", screen_.get());
  }
  columns_ = columns;
  el_resize(el_.get());
  el_set(el_.get(), EL_REFRESH);
}

void LineEditor::enter_terminal() {
  if (has_escapes_) std::fputs("\033[?2004h", screen_.get());
}

void LineEditor::leave_terminal() {
  if (has_escapes_) std::fputs("\033[?2004l", screen_.get());
  std::fflush(screen_.get());
}

// --- keys ---

// Takes a paste, from ESC [ 200 ~ to ESC [ 201 ~, into the line unchanged, including newlines.
unsigned char LineEditor::paste(EditLine* el, int /*key*/) {
  static constexpr std::wstring_view kEnd = L"\033[201~";
  LineEditor* self = nullptr;
  el_get(el, EL_CLIENTDATA, &self);
  std::wstring text;
  wchar_t c = 0;
  while (!text.ends_with(kEnd)) {
    if (el_wgetc(el, &c) != 1) return CC_EOF;
    if (self->cancelled_) return CC_NEWLINE;
    text += c;
  }
  text.resize(text.size() - kEnd.size());
  std::wstring clean;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == L'\r' || text[i] == L'\n') {
      // Terminals send a newline as CR or CR LF; libedit's driver settings may exchange the two.
      if (i + 1 < text.size() && text[i] + text[i + 1] == L'\r' + L'\n') ++i;
      clean += L'\n';
    } else if (text[i] == L'\t' || (text[i] >= L' ' && text[i] != 0x7f)) {
      clean += text[i];  // drops other control characters
    }
  }
  while (clean.ends_with(L'\n')) clean.pop_back();
  if (clean.empty()) return CC_NORM;
  return el_winsertstr(el, clean.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::complete(EditLine* el, int /*key*/) {
  LineEditor* self = nullptr;
  el_get(el, EL_CLIENTDATA, &self);
  const LineInfo* line = el_line(el);
  const std::string before(line->buffer, line->cursor);
  try {
    return self->offer(self->suggester_(before), before.size());
  } catch (const std::exception&) {
    return CC_ERROR;  // a beep; the command itself will report an unreadable plugin folder
  }
}

unsigned char LineEditor::offer(const Suggestions& suggestions, std::size_t cursor) {
  if (suggestions.items.empty()) return CC_ERROR;
  std::string text = suggestions.common_prefix();
  const bool is_whole = suggestions.items.size() == 1 && suggestions.items.front().is_whole;
  if (is_whole) text += ' ';
  const LineInfo* line = el_line(el_.get());
  const std::string_view given(line->buffer + suggestions.start, cursor - suggestions.start);
  if (text == given) {
    if (suggestions.items.size() == 1) return CC_ERROR;
    list(suggestions);
    return CC_NORM;
  }
  el_deletestr(el_.get(), static_cast<int>(num_characters(given)));
  el_insertstr(el_.get(), text.c_str());
  return CC_REFRESH;
}

void LineEditor::list(const Suggestions& suggestions) {
  const std::size_t num_shown = std::min(suggestions.items.size(), kMaxListed);
  std::size_t width = 0;
  for (std::size_t i = 0; i < num_shown; ++i) width = std::max(width, num_characters(suggestions.items[i].text));
  width += 2;
  const std::size_t num_columns = std::max<std::size_t>(1, static_cast<std::size_t>(columns_) / width);
  const std::size_t num_rows = (num_shown + num_columns - 1) / num_columns;
  std::string text = "\n";
  for (std::size_t row = 0; row < num_rows; ++row) {
    for (std::size_t i = row; i < num_shown; i += num_rows) {
      const std::string& item = suggestions.items[i].text;
      text += item;
      if (i + num_rows < num_shown) text.append(width - num_characters(item), ' ');
    }
    text += '\n';
  }
  if (num_shown < suggestions.items.size()) {
    text += fmt::format("... and {} more\n", suggestions.items.size() - num_shown);
  }
  std::fputs(text.c_str(), screen_.get());
  el_set(el_.get(), EL_REFRESH);
}

}  // namespace mortise
