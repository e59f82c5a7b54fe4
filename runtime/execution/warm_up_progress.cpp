#include "execution/warm_up_progress.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>

namespace mortise {
namespace {

// A start that takes less time shows no progress line.
constexpr std::chrono::milliseconds kMoment{500}, kRelogAfter{5000};
constexpr const char* kEraseLine = "\r\x1b[K";

void write_to_stderr(const std::string& text) {
  // A closed terminal must not end the start.
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

std::string warm_up_text(const std::string& device, std::size_t num_done, std::size_t num_steps, double elapsed_s) {
  return fmt::format("{}: trying steps of all sizes, {} of {}, {:.0f} s", device, num_done, num_steps, elapsed_s);
}

WarmUpProgress::WarmUpProgress(std::string device, std::size_t num_steps)
    : device_(std::move(device)), num_steps_(num_steps), on_terminal_(::isatty(STDERR_FILENO) == 1) {}

WarmUpProgress::~WarmUpProgress() {
  if (drawn_) write_to_stderr(kEraseLine);
}

void WarmUpProgress::step_done() {
  ++num_done_;
  const auto now = Clock::now();
  if (now - start_ < kMoment) return;
  const std::string text = warm_up_text(device_, num_done_, num_steps_, elapsed_s());
  if (on_terminal_) {
    write_to_stderr(kEraseLine + ("mortise: " + text));
    drawn_ = true;
  } else if (now - told_ >= kRelogAfter) {
    spdlog::info("{}", text);
    told_ = now;
  }
}

double WarmUpProgress::elapsed_s() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace mortise
