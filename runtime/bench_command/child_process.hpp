// runtime/bench_command/child_process.hpp: another run of this program, measured from outside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mortise::bench {

// Starts the program with these arguments, nothing on standard input, and returns the seconds until its first byte on
// standard output, or its end. Waits for the end. Throws an Error with the last line on standard error when that was
// not exit code 0. `scratch` is a folder for that text.
double seconds_to_first_output(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                               const std::filesystem::path& scratch);

// Starts the program in the same way and returns the most memory that it had resident at a time, once it has ended.
std::uint64_t peak_bytes(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                         const std::filesystem::path& scratch);

// A program that prints a line when it is ready, and ends well at SIGTERM: a server.
class BackgroundProcess {
 public:
  // Waits for that line. Throws an Error with the last line on standard error when the program ends before it.
  BackgroundProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::filesystem::path& scratch);
  ~BackgroundProcess();  // ends it and waits for that
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;

  const std::string& first_line() const { return first_line_; }

 private:
  int pid_ = 0, output_ = -1;
  std::string first_line_;
};

}  // namespace mortise::bench
