#include "trial/trial.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "environment.hpp"
#include "error.hpp"
#include "loader/plugin_file.hpp"
#include "trial/memory_use.hpp"
#include "trial/page.hpp"
#include "trial/trial_process.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{10};

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

// "proposer 'mine' (mine.so): propose (call 7): "; "" if there was no call.
std::string last_call(const TrialPage& page) {
  const CallRecord& call = page.call;
  if (call.num_changes.load(std::memory_order_acquire) == 0) return "";
  const std::string part(call.part, strnlen(call.part, sizeof call.part));
  const std::string function(call.function, strnlen(call.function, sizeof call.function));
  return fmt::format("{}: {} (call {}){}: ", part, function, call.number, call.runs.load() ? "" : ", or after it");
}

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// Watches a process until it ends, or must be ended.
class Watch {
 public:
  Watch(TrialProcess& process, TrialPage& page, const TrialLimits& limits)
      : process_(process), page_(page), limits_(limits) {}

  // Returns the reason to end the process; nullopt: there is none yet.
  std::optional<std::string> look() {
    const Clock::time_point now = Clock::now();
    const std::uint64_t changes = page_.call.num_changes.load(std::memory_order_acquire);
    if (changes != changes_) {
      changes_ = changes;
      since_ = now;
    }
    const auto seconds = [&](Clock::time_point from) { return std::chrono::duration<double>(now - from).count(); };
    if (page_.call.runs.load()) {
      const double limit = page_.call.kind.load() == CallKind::kStep ? limits_.step_s : limits_.control_s;
      if (seconds(since_) > limit) return fmt::format("has not returned in {:g} s", limit);
    }
    if (seconds(begin_) > limits_.all_s) return fmt::format("the trial has taken longer than {:g} s", limits_.all_s);
    const std::uint64_t most = page_.most_memory.load();
    if (most > 0 && process_memory(process_.id()) > most) {
      return fmt::format("the trial has used more memory than its limit, {:.1f} GiB", gib(most));
    }
    return std::nullopt;
  }

 private:
  TrialProcess& process_;
  TrialPage& page_;
  const TrialLimits limits_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point since_ = begin_;
  std::uint64_t changes_ = 0;
};

bool is_unreadable(const TrialOrder& order, const TrialPage& page) {
  return order.script && page.has_candidate.load() && !page.is_read.load();
}

[[noreturn]] void refuse(const TrialOrder& order, const TrialPage& page, const TrialProcess& process,
                         const std::string& what) {
  const std::string line = process.last_line();
  const std::string text = fmt::format("{}{}{}; it was tried in a separate process, and nothing has changed",
                                       last_call(page), what, line.empty() ? "" : fmt::format(" (it said: {})", line));
  if (is_unreadable(order, page)) throw UnreadableScript(text);
  throw Error(text);
}

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("the plugin ended the process with {}", signal_name(WTERMSIG(status)));
  return fmt::format("the plugin ended the process with exit code {}", WEXITSTATUS(status));
}

// Checks that the files are still the ones that were tried.
void check_files(const TrialPage& page) {
  const auto report = nlohmann::json::parse(page.read_text(), nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains("files")) fail("the trial of these parts has left no report");
  for (const auto& [path, hash] : report.at("files").items()) {
    if (hash == nlohmann::json(plugin_file_hash(path))) continue;
    fail(ErrorCode::kConflict, "{}: changed during the trial; ask again", path);
  }
}

}  // namespace

TrialLimits trial_limits() {
  TrialLimits limits;
  const std::optional<std::string> text = environment::read(environment::kCallLimit);  // checked by main()
  if (!text) return limits;
  limits.step_s = std::strtod(text->c_str(), nullptr);
  limits.control_s = 4 * limits.step_s;
  limits.all_s = std::max(limits.all_s, 10 * limits.step_s);
  return limits;
}

TrialOutcome try_parts(const TrialOrder& order, const std::function<bool()>& is_given_up) {
  SharedPage page(order.to_text());
  TrialProcess process(page.descriptor());
  Watch watch(process, *page, trial_limits());
  std::optional<int> status;
  while (!(status = process.wait(kLook))) {
    if (is_given_up()) {
      fail(ErrorCode::kUnavailable, "the trial of these parts was given up; nothing has changed");
    }
    if (const std::optional<std::string> why = watch.look()) {
      process.end();
      refuse(order, *page, process, *why);
    }
  }
  switch (page->state.load(std::memory_order_acquire)) {
    case TrialState::kPassed:
      check_files(*page);
      return {};
    case TrialState::kRefused:
      if (is_unreadable(order, *page)) throw UnreadableScript(page->read_text());
      throw Error(page->read_text(), static_cast<ErrorCode>(page->code.load()));
    case TrialState::kNotMade:
      return {false, page->read_text()};
    case TrialState::kRuns:
      break;
  }
  refuse(order, *page, process, end_of(*status));
}

}  // namespace mortise
