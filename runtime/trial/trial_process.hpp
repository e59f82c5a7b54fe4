// runtime/trial/trial_process.hpp: runs this program again as the process of a trial.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "file_descriptor.hpp"

namespace mortise {

// The hidden sub-command of such a process, and the descriptor of its page.
inline constexpr const char* kTrialCommand = "trial-of-parts";
inline constexpr int kTrialDescriptor = 3;

// The process of a trial. It inherits only the page: no lock that another thread holds, and no socket. The last lines
// of its output are kept. It has a process group of its own, so Ctrl-C on a terminal does not reach it, and processes
// that it starts end with it. Used by one thread. Invariant: the process is reaped once.
class TrialProcess {
 public:
  // Throws an Error with kUnavailable if no process can be started.
  explicit TrialProcess(int page);
  ~TrialProcess();  // ends the process
  TrialProcess(const TrialProcess&) = delete;
  TrialProcess& operator=(const TrialProcess&) = delete;

  pid_t id() const { return id_; }
  // Waits up to `time` for the end. Returns the status of waitpid(); nullopt: the process is running.
  std::optional<int> wait(std::chrono::milliseconds time);
  void end();  // kills it if it runs
  // The last line of its output, shortened; without lines that the host itself writes.
  std::string last_line() const;

 private:
  void read_output();
  void reap();

  FileDescriptor output_;
  pid_t id_ = 0;
  std::optional<int> status_;
  std::string written_;  // the end of its output
};

}  // namespace mortise
