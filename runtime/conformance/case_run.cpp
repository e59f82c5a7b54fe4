#include "conformance/case_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "conformance/held_signals.hpp"
#include "conformance/stray_processes.hpp"
#include "file_descriptor.hpp"
#include "loader/running_calls.hpp"

namespace mortise::conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxOutput = 64 << 10;
constexpr int kPollMilliseconds = 20;

// Memory that both processes map. The child writes it, the parent reads it when the child has ended.
struct Page {
  std::atomic<bool> has_ended{false};
  std::atomic<Outcome> outcome{Outcome::kFailed};
  CallRecord call;
  char text[256 << 10] = {};  // NUL-terminated

  void end(Outcome result, std::string_view words) {
    const std::size_t size = std::min(words.size(), sizeof text - 1);
    std::memcpy(text, words.data(), size);
    text[size] = '\0';
    outcome = result;
    has_ended = true;
  }
};

// Owns the page. Used by one thread in each process.
class SharedMemory {
 public:
  SharedMemory() {
    void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for the result of a case");
    page_ = new (memory) Page;
  }
  ~SharedMemory() { ::munmap(page_, sizeof(Page)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Page* operator->() { return page_; }
  Page& operator*() { return *page_; }

 private:
  Page* page_;
};

[[noreturn]] void run_child(Page& page, int output, pid_t parent, const std::function<std::string()>& work) {
  const pid_t self = ::getpid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);  // the parent has ended already, so no signal will come
  ::setpgid(0, 0);                        // Ctrl-C is for the parent, which then ends this process
  adopt_orphans();
  HeldSignals::let_through();
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(signal, SIG_DFL);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  record_calls(page.call);
  Outcome outcome = Outcome::kPassed;
  std::string text;
  try {
    text = work();
  } catch (const NotApplicable& reason) {
    outcome = Outcome::kNotApplicable;
    text = reason.what();
  } catch (const std::exception& error) {
    outcome = Outcome::kFailed;
    text = error.what();
  }
  // If the plugin forks and returns in both processes, both come here. Only the first one gives the result.
  if (::getpid() != self) ::_exit(0);
  page.end(outcome, text);
  std::fflush(nullptr);
  ::_exit(0);  // without destructors, because those of the plugin could do anything
}

std::string last_call(const CallRecord& call) {
  if (call.num_changes == 0) return "before any call into an instance";
  const char* const when = call.runs ? "in" : "after";
  return fmt::format("{} {} (call {} of it) of {}", when, call.function, call.number, call.part);
}

std::string last_line(int file) {
  std::string all;
  const off_t size = ::lseek(file, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(kMaxOutput));
  all.resize(static_cast<std::size_t>(size - begin));
  const ssize_t got = ::pread(file, all.data(), all.size(), begin);
  all.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  while (!all.empty() && all.back() == '\n') all.pop_back();
  const std::size_t at = all.rfind('\n');
  return plugin_text(all.substr(at == std::string::npos ? 0 : at + 1).c_str(), 400);
}

// Waits for the child's end. Returns why it was ended, or nothing. Throws Interrupted if a signal asks this process to
// end.
std::string wait_for(pid_t child, const StrayProcesses& all, const RunLimits& limits, const Page& page, int& status) {
  const auto end = Clock::now() + limits.time;
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  for (;;) {
    pollfd ended = {handle.get(), POLLIN, 0};
    ::poll(&ended, 1, kPollMilliseconds);
    if (::waitpid(child, &status, WNOHANG) == child) return "";
    std::string why;
    if (Clock::now() > end)
      why = fmt::format("does not end within {} s, {}", limits.time.count(), last_call(page.call));
    const std::uint64_t bytes = all.resident_bytes();  // including processes that the plugin has started
    if (bytes > limits.bytes) why = fmt::format("uses {} MiB of memory, {}", bytes >> 20, last_call(page.call));
    const int signal = HeldSignals::take();
    if (why.empty() && signal == 0) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    if (signal == 0) return why;
    throw Interrupted(signal);
  }
}

}  // namespace

CaseResult run_in_child(const RunLimits& limits, const std::function<std::string()>& work) {
  SharedMemory page;
  const FileDescriptor output(::memfd_create("mortise-case-output", MFD_CLOEXEC));
  std::fflush(nullptr);
  const HeldSignals held;
  StrayProcesses strays;  // destroyed before a held signal can end this process
  const auto begin = Clock::now();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail("no process for a case: {}", std::strerror(errno));
  if (child == 0) run_child(*page, output.get(), parent, work);
  int status = 0;
  const std::string why = wait_for(child, strays, limits, *page, status);
  const std::string left = strays.end_all();
  CaseResult result;
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  result.output = last_line(output.get());
  if (!why.empty()) {
    result.text = why;
  } else if (WIFSIGNALED(status)) {
    result.text = fmt::format("crashes with {} ({}), {}", sigabbrev_np(WTERMSIG(status)), strsignal(WTERMSIG(status)),
                              last_call(page->call));
  } else if (!page->has_ended || (page->call.runs && left.empty())) {  // a second process may also run a call
    result.text = fmt::format("ends the process with exit code {}, {}", WEXITSTATUS(status), last_call(page->call));
  } else {
    result.outcome = left.empty() ? page->outcome.load() : Outcome::kFailed;
    result.text = left.empty() || page->outcome == Outcome::kFailed ? page->text : left;
  }
  return result;
}

CaseResult run_case(const Case& rule, const CheckOptions& check, const std::string& component,
                    const RunLimits& limits) {
  return run_in_child(limits, [&] {
    Subject subject(check, component, rule.name);
    rule.run(subject);
    return std::string();
  });
}

std::vector<Described> describe_file(const CheckOptions& check, const RunLimits& limits) {
  const CaseResult result = run_in_child(limits, [&] {
    auto list = nlohmann::json::array();
    for (const Component& component : load_plugin_file(check.file).components) {
      list.push_back({component.label(), component.name, static_cast<int>(component.kind)});
    }
    return list.dump();
  });
  if (result.outcome != Outcome::kPassed) {
    const bool has_name = result.text.starts_with(check.file.string());
    fail("{}{}", has_name ? "" : check.file.string() + ": ", result.text);
  }
  std::vector<Described> components;
  for (const auto& item : nlohmann::json::parse(result.text)) {
    components.push_back({item[0], item[1], static_cast<PartKind>(item[2].get<int>())});
  }
  return components;
}

}  // namespace mortise::conformance
