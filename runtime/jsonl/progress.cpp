#include "jsonl/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace mortise {
namespace {

constexpr std::size_t kBarWidth = 20;
constexpr auto kRedrawAfter = std::chrono::milliseconds(200);
constexpr const char* kEraseLine = "\r\x1b[K";

// 1234567 as 1,234,567.
std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string lines(std::uint64_t number) {
  return fmt::format("{} line{}", grouped(number), number == 1 ? "" : "s");
}

std::string duration(double seconds) {
  const auto total = static_cast<std::uint64_t>(std::ceil(std::min(seconds, 1e9)));
  const std::uint64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest) : fmt::format("{}:{:02}", minutes, rest);
}

double rate(std::uint64_t count, double elapsed_s) {
  return elapsed_s > 0 ? static_cast<double>(count) / elapsed_s : 0;
}

std::string rates(const ProgressState& state, double elapsed_s) {
  return fmt::format("{:.1f} lines/s, {} tokens/s", rate(state.num_lines - state.lines_before, elapsed_s),
                     grouped(static_cast<std::uint64_t>(rate(state.num_tokens, elapsed_s))));
}

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_to_stderr(const std::string& text) {
  // Errors are ignored: losing the terminal must not end the run.
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

std::string progress_bar(const ProgressState& state, double elapsed_s, std::size_t width) {
  std::string bar, text;
  if (state.bytes_total && *state.bytes_total > 0) {
    const double share = std::min(1.0, static_cast<double>(state.bytes_done) / static_cast<double>(*state.bytes_total));
    const auto filled = static_cast<std::size_t>(share * kBarWidth);
    bar = std::string(filled, '=') + (filled < kBarWidth ? ">" : "");
    bar = fmt::format("[{:<{}}] ", bar, kBarWidth);
    text = fmt::format("{:3.0f}%  ", std::floor(share * 100));
  }
  text += lines(state.num_lines);
  if (state.num_failed > 0) text += fmt::format(", {} failed", grouped(state.num_failed));
  text += ", " + rates(state, elapsed_s);
  if (state.bytes_total && state.bytes_done > state.bytes_before) {
    const double bytes_per_s = rate(state.bytes_done - state.bytes_before, elapsed_s);
    const std::uint64_t left = *state.bytes_total - std::min(*state.bytes_total, state.bytes_done);
    text += fmt::format(", {} left", duration(static_cast<double>(left) / bytes_per_s));
  }
  // If there is not enough room, the bar is left out, since the figures say the same.
  return (bar.size() + text.size() <= width ? bar + text : text).substr(0, width);
}

std::string progress_summary(const ProgressState& state, double elapsed_s) {
  const std::string before =
      state.lines_before > 0 ? fmt::format(" ({} of them before)", grouped(state.lines_before)) : "";
  return fmt::format("{}{}, {} failed, in {:.1f} s ({})", lines(state.num_lines), before, grouped(state.num_failed),
                     elapsed_s, rates(state, elapsed_s));
}

Progress::Progress(std::string label) : label_(std::move(label)), on_terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::begin(const ProgressState& state) {
  start_ = Clock::now();
  last_drawn_ = start_ - kRedrawAfter;
  update(state);
}

void Progress::update(const ProgressState& state) {
  if (!on_terminal_) return;
  const auto now = Clock::now();
  if (now - last_drawn_ < kRedrawAfter) return;
  last_drawn_ = now;
  drawn_ = true;
  // Leaves one column free: some terminals wrap a line that fills the last column.
  const std::size_t width = std::max(terminal_width(), label_.size() + 2) - 1;
  write_to_stderr(kEraseLine + label_ + progress_bar(state, elapsed_s(), width - label_.size()));
}

void Progress::clear() {
  if (drawn_) write_to_stderr(kEraseLine);
  drawn_ = false;
}

void Progress::finish(const ProgressState& state) {
  clear();
  write_to_stderr(label_ + progress_summary(state, elapsed_s()) + "\n");
}

double Progress::elapsed_s() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace mortise
