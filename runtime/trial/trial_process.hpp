// runtime/trial/trial_process.hpp: this program once more, as the process of a trial.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "file_descriptor.hpp"

namespace mortise {

// The hidden sub-command that such a process runs, and where it finds its page.
inline constexpr const char* kTrialCommand = "trial-of-parts";
inline constexpr int kTrialDescriptor = 3;

// Nothing of this process is handed on but the page: no lock that another thread holds, no socket. Of what it writes
// the last lines are kept. It has a process group of its own: Ctrl-C on a terminal is not for it, and what it starts
// ends with it.
class TrialProcess {
 public:
  // Throws an Error with kUnavailable when none can be started.
  explicit TrialProcess(int page);
  ~TrialProcess();  // ends it
  TrialProcess(const TrialProcess&) = delete;
  TrialProcess& operator=(const TrialProcess&) = delete;

  pid_t id() const { return id_; }
  // Waits that long for the end. The status as waitpid() has it; nullopt: it runs.
  std::optional<int> wait(std::chrono::milliseconds time);
  void end();  // kills it if it runs
  // The last line that it wrote, shortened; lines that the host itself writes are left out.
  std::string last_line() const;

 private:
  void read_output();
  void reap();

  FileDescriptor output_;
  pid_t id_ = 0;
  std::optional<int> status_;
  std::string written_;  // the end of it
};

}  // namespace mortise
