// runtime/trace/trace_file.hpp: Chrome trace events (chrome://tracing, Perfetto), streamed to a file as one JSON array.
// A regular file is valid JSON after every flush, whatever then happens to the process: the closing bracket is written
// behind the events and the next events overwrite it. Elsewhere (a pipe) it comes with close().
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace mortise {

class TraceFile {
 public:
  // Replaces the file. Throws an Error when it cannot be written.
  explicit TraceFile(const std::string& path);
  ~TraceFile();  // close(), with what goes wrong swallowed
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Names a process of the trace and its one thread; returns its pid. [any thread]
  int add_process(const std::string& name, const std::string& thread);
  // Time since the trace began. [any thread]
  std::int64_t now_ns() const;
  // Adds events: JSON objects with ",\n" between them. They reach the file soon, or with flush(). [any thread]
  void add(std::string_view events);
  void flush();
  // The end. Throws an Error when anything could not be written, now or before.
  void close();

 private:
  void flush_locked();

  const std::string path_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int fd_ = -1;
  bool seekable_ = false;

  std::mutex mutex_;  // guards what follows
  std::string pending_;
  std::int64_t end_ = 0;  // offset behind the last event in the file
  std::int64_t last_flush_ns_ = 0;
  bool any_event_ = false;
  int num_processes_ = 0;
  int error_ = 0;  // the first errno of a write; nothing is written after it
};

}  // namespace mortise
