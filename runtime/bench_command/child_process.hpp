// runtime/bench_command/child_process.hpp: runs this program as another process and measures it from outside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mortise::bench {

// Starts the program with these arguments and empty standard input. Returns the seconds until its first byte on
// standard output, or until its end. Waits for the end. Throws an Error with the last line on standard error if the
// exit code is not 0. `scratch` is a folder for that text.
double seconds_to_first_output(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                               const std::filesystem::path& scratch);

// Starts the program in the same way, waits for its end, and returns its largest resident memory.
std::uint64_t peak_bytes(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                         const std::filesystem::path& scratch);

// A program, such as a server, that prints a line when it is ready, and ends normally after SIGTERM. Invariant: the
// process runs until the destructor ends it. Used by one thread.
class BackgroundProcess {
 public:
  // Starts the program and waits for the line. Throws an Error with the last line on standard error if the program ends
  // first.
  BackgroundProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::filesystem::path& scratch);
  ~BackgroundProcess();  // ends the program and waits for its end
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;

  const std::string& first_line() const { return first_line_; }

 private:
  int pid_ = 0, output_ = -1;
  std::string first_line_;
};

}  // namespace mortise::bench
