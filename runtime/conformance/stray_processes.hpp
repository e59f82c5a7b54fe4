// runtime/conformance/stray_processes.hpp: finds the processes that a plugin starts, and ends those that would outlive
// their case.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

namespace mortise::conformance {

// Returns the child processes of this process, of all its threads, including children that have ended and were not
// waited for. Empty if /proc does not list them. [any thread]
std::set<pid_t> child_processes();

// From now on, an orphan among the descendants of this process becomes a child of this process. So a daemon stays in
// sight, although it has left its session and its parent has ended.
void adopt_orphans();

// Guards one case. Invariant: while this lives, the process adopts orphans. Used by one thread; lives in the process
// that starts the case.
class StrayProcesses {
 public:
  StrayProcesses();
  ~StrayProcesses();  // also ends all; the process adopts orphans no longer, unless it did before
  StrayProcesses(const StrayProcesses&) = delete;
  StrayProcesses& operator=(const StrayProcesses&) = delete;

  // Returns the resident memory of all descendants that this process has got since the constructor. Memory that several
  // of them share counts once for each.
  std::uint64_t resident_bytes() const;
  // Kills all descendants that this process has got since the constructor. Call it when the case's own process has been
  // waited for. Returns what still ran, in words ("it leaves the process 'sleep' behind"), or an empty text.
  std::string end_all();

 private:
  const std::set<pid_t> before_;  // children that the case did not start
  int adopted_before_ = 0;
};

}  // namespace mortise::conformance
