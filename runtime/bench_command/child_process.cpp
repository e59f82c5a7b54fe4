#include "bench_command/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>

#include "error.hpp"

extern char** environ;

namespace mortise::bench {
namespace {

std::string last_line(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::string last;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

pid_t start(const std::filesystem::path& program, const std::vector<std::string>& arguments, int output,
            const std::filesystem::path& errors) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail("{}: cannot be started: {}", program.native(), std::strerror(error));
  return pid;
}

// Reads everything, so that the process never waits to write.
void drain(int descriptor) {
  char buffer[4096];
  ssize_t got = 0;
  do {
    got = ::read(descriptor, buffer, sizeof buffer);
  } while (got > 0 || (got < 0 && errno == EINTR));
}

// A child process with its output in a pipe.
struct Child {
  pid_t pid = 0;
  int output = -1;
};

Child start_piped(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                  const std::filesystem::path& errors) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    fail("bench: no pipe to another process could be opened: {}", std::strerror(errno));
  try {
    const pid_t pid = start(program, arguments, ends[1], errors);
    ::close(ends[1]);
    return {pid, ends[0]};
  } catch (const Error&) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
}

// Reads the rest, waits for the end, and returns the resources that the process used.
rusage finish(const Child& child, const std::vector<std::string>& arguments, const std::filesystem::path& errors) {
  drain(child.output);
  ::close(child.output);
  int status = 0;
  rusage usage{};
  while (::wait4(child.pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fail("bench: `mortise {}` failed: {}", arguments.empty() ? "" : arguments.front(), last_line(errors));
  }
  return usage;
}

}  // namespace

double seconds_to_first_output(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                               const std::filesystem::path& scratch) {
  const auto begin = std::chrono::steady_clock::now();
  const Child child = start_piped(program, arguments, scratch / "stderr");
  char first = 0;
  while (::read(child.output, &first, 1) < 0 && errno == EINTR) {
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  finish(child, arguments, scratch / "stderr");
  return seconds;
}

BackgroundProcess::BackgroundProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                     const std::filesystem::path& scratch) {
  const Child child = start_piped(program, arguments, scratch / "stderr");
  char next = 0;
  ssize_t got = 0;
  while ((got = ::read(child.output, &next, 1)) != 0 && next != '\n') {
    if (got > 0) first_line_ += next;
  }
  if (got == 0) {
    finish(child, arguments, scratch / "stderr");
    fail("bench: `mortise {}` ended before it was ready", arguments.front());
  }
  pid_ = child.pid;
  output_ = child.output;
}

BackgroundProcess::~BackgroundProcess() {
  ::kill(pid_, SIGTERM);
  ::close(output_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::uint64_t peak_bytes(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                         const std::filesystem::path& scratch) {
  const Child child = start_piped(program, arguments, scratch / "stderr");
  return static_cast<std::uint64_t>(finish(child, arguments, scratch / "stderr").ru_maxrss) << 10;
}

}  // namespace mortise::bench
