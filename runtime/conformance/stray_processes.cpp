#include "conformance/stray_processes.hpp"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>

#include "error.hpp"
#include "loader/component.hpp"

namespace mortise::conformance {
namespace {

// A killed process ends at once, unless the kernel waits for a device.
constexpr std::chrono::seconds kMaxPatience{5};
constexpr useconds_t kMicrosecondsBetweenRounds = 200;

std::string name_of_process(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  std::getline(file, name);
  return plugin_text(name.c_str(), 64);
}

// Returns the children of all threads of the process.
std::set<pid_t> children_of(pid_t process) {
  std::set<pid_t> children;
  DIR* const threads = ::opendir(fmt::format("/proc/{}/task", process).c_str());
  if (threads == nullptr) return children;
  while (const dirent* const thread = ::readdir(threads)) {
    std::ifstream file(fmt::format("/proc/{}/task/{}/children", process, thread->d_name));
    for (pid_t child = 0; file >> child;) children.insert(child);
  }
  ::closedir(threads);
  return children;
}

// Returns the resident memory of the process and of its descendants.
std::uint64_t resident_bytes_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/statm", process));
  std::uint64_t pages = 0, resident = 0;
  file >> pages >> resident;
  std::uint64_t sum = resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const pid_t child : children_of(process)) sum += resident_bytes_of(child);
  return sum;
}

}  // namespace

std::set<pid_t> child_processes() {
  return children_of(::getpid());
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

StrayProcesses::StrayProcesses() : before_(child_processes()) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &adopted_before_);
  adopt_orphans();
}

StrayProcesses::~StrayProcesses() {
  end_all();
  ::prctl(PR_SET_CHILD_SUBREAPER, adopted_before_);
}

std::uint64_t StrayProcesses::resident_bytes() const {
  std::uint64_t sum = 0;
  for (const pid_t child : child_processes()) {
    if (!before_.contains(child)) sum += resident_bytes_of(child);
  }
  return sum;
}

// Kills children only: the id of a child cannot pass to another process before the child is waited for. The children
// of a killed child become children of this process, so the next round finds them.
std::string StrayProcesses::end_all() {
  const auto end = std::chrono::steady_clock::now() + kMaxPatience;
  std::set<pid_t> killed;  // and not yet waited for
  std::size_t num_killed = 0;
  std::string first;
  for (;;) {
    bool is_alone = true;
    for (const pid_t child : child_processes()) {
      if (before_.contains(child)) continue;
      is_alone = false;
      if (::waitpid(child, nullptr, WNOHANG | __WALL) == child) {
        killed.erase(child);
        continue;
      }
      // Sends SIGKILL before it reads the name: a process that keeps forking and exiting would be gone after a look at
      // its name.
      if (!killed.insert(child).second) continue;
      ::kill(child, SIGKILL);
      if (num_killed++ == 0) first = name_of_process(child);
    }
    // The list can lack a process that became a child while it was read.
    if (is_alone && (!before_.empty() || ::waitpid(-1, nullptr, WNOHANG | __WALL) < 0)) break;
    if (std::chrono::steady_clock::now() > end) {
      return fmt::format("it leaves the process '{}' behind, which cannot be ended", first);
    }
    ::usleep(kMicrosecondsBetweenRounds);
  }
  if (num_killed == 0) return "";
  if (num_killed == 1) return fmt::format("it leaves the process '{}' behind", first);
  return fmt::format("it leaves {} processes behind, the first of them '{}'", num_killed, first);
}

}  // namespace mortise::conformance
