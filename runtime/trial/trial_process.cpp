#include "trial/trial_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "error.hpp"

extern char** environ;

namespace mortise {
namespace {

constexpr std::size_t kMaxWritten = 4096, kMaxLine = 200;

[[noreturn]] void fail_to_start(const char* what, int error) {
  fail(ErrorCode::kUnavailable, "the parts cannot be tried: {} failed: {}", what, std::strerror(error));
}

// The file actions and attributes for starting a process.
struct Start {
  Start(int page, int output) {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, page, kTrialDescriptor);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, kTrialDescriptor + 1);
    ::posix_spawnattr_init(&attributes);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Start() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

TrialProcess::TrialProcess(int page) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    fail_to_start("opening a pipe", errno);
  }
  output_ = FileDescriptor(ends[0]);
  const FileDescriptor written(ends[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  const Start start(page, written.get());
  std::string program = "/proc/self/exe", command = kTrialCommand;
  char* argv[] = {program.data(), command.data(), nullptr};
  const int error = ::posix_spawn(&id_, program.c_str(), &start.actions, &start.attributes, argv, environ);
  if (error != 0) {
    fail_to_start("starting a process", error);
  }
}

TrialProcess::~TrialProcess() {
  end();
}

std::optional<int> TrialProcess::wait(std::chrono::milliseconds time) {
  if (status_) return status_;
  pollfd output = {output_.get(), POLLIN, 0};
  ::poll(&output, output_ ? 1 : 0, static_cast<int>(time.count()));
  read_output();
  siginfo_t info{};
  const int got = ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (got == 0 && info.si_pid == id_) reap();
  return status_;
}

void TrialProcess::end() {
  if (!status_) reap();
}

// Waits for the process and ends its group. The group id stays reserved until the process has been waited for.
void TrialProcess::reap() {
  ::kill(-id_, SIGKILL);
  int status = 0;
  while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = status;
  read_output();
}

void TrialProcess::read_output() {
  char buffer[4096];
  for (int i = 0; output_ && i < 64; ++i) {  // bounded, since a process may write all the time
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got == 0) output_.reset();
    if (got <= 0) return;
    written_.append(buffer, static_cast<std::size_t>(got));
    if (written_.size() > kMaxWritten) written_.erase(0, written_.size() - kMaxWritten);
  }
}

std::string TrialProcess::last_line() const {
  std::string last;
  std::size_t begin = 0;
  while (begin < written_.size()) {
    const std::size_t end = std::min(written_.find('\n', begin), written_.size());
    const std::string line = written_.substr(begin, end - begin);
    if (!line.empty() && !line.starts_with("mortise: ")) last = line;
    begin = end + 1;
  }
  for (char& c : last) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return last.substr(0, kMaxLine);
}

}  // namespace mortise
