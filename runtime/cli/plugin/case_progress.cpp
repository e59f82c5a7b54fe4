#include "cli/plugin/case_progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace mortise {
namespace {

constexpr const char* kEraseCaseLine = "\r\x1b[K";

void write_to_terminal(const std::string& text) {
  // Ignores a failure, because a terminal that was closed must not end the check.
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

// Returns the most columns of the line, because a line that the terminal wraps could not be erased.
std::size_t widest_line() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79;
}

}  // namespace

CaseProgress::CaseProgress() : on_terminal_(::isatty(STDERR_FILENO) == 1) {}

conformance::SuiteEvents CaseProgress::events() {
  conformance::SuiteEvents events;
  events.on_start = [this](const conformance::CaseStart& start) { show(start); };
  return events;
}

void CaseProgress::show(const conformance::CaseStart& start) {
  if (!on_terminal_) return;
  const std::string of_all = start.total == 0 ? "" : fmt::format(" of {}", start.total);
  std::string text = fmt::format("case {}{}: {}", start.number, of_all, start.rule->name);
  text.resize(std::min(text.size(), widest_line()));
  write_to_terminal(kEraseCaseLine + text);
  is_drawn_ = true;
}

void CaseProgress::erase() {
  if (is_drawn_) write_to_terminal(kEraseCaseLine);
  is_drawn_ = false;
}

}  // namespace mortise
