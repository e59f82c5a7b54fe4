// runtime/trace/trace_file.hpp: Chrome trace events (chrome://tracing, Perfetto), streamed to a file as one JSON array.
// A regular file is valid JSON after every flush, even if the process is killed: the closing bracket is written after
// the events, and the next events overwrite it. A pipe gets it with close().
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace mortise {

// One trace file. Thread-safe. Invariant: after a flush, a regular file is a complete JSON array.
class TraceFile {
 public:
  // Replaces the file. Throws an Error if it cannot be written.
  explicit TraceFile(const std::string& path);
  ~TraceFile();  // close(), ignoring errors
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Adds a process with one thread to the trace. Returns its pid. [any thread]
  int add_process(const std::string& name, const std::string& thread);
  // Time since the trace began. [any thread]
  std::int64_t now_ns() const;
  // Adds events: JSON objects separated by ",\n". They reach the file soon, or with flush(). [any thread]
  void add(std::string_view events);
  void flush();
  // Ends the array. Throws an Error if anything could not be written, now or before.
  void close();

 private:
  void flush_locked();

  const std::string path_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int fd_ = -1;
  bool seekable_ = false;

  std::mutex mutex_;  // guards the members below
  std::string pending_;
  std::int64_t end_ = 0;  // offset after the last event in the file
  std::int64_t last_flush_ns_ = 0;
  bool any_event_ = false;
  int num_processes_ = 0;
  int error_ = 0;  // errno of the first failed write; nothing is written after it
};

}  // namespace mortise
