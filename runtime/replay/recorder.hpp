// runtime/replay/recorder.hpp: writes the request log of all requests that engines run, whichever front end submits
// them. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "engine/hooks.hpp"
#include "jsonl/output_lines.hpp"
#include "replay/request_collector.hpp"
#include "replay/request_log.hpp"

namespace mortise {

// Invariant: records are written in the order in which requests ended. Thread-safe.
class Recorder {
 public:
  // Creates the log or continues it. Requests of an earlier run stay; a line that a killed run left incomplete is
  // removed. Throws an Error if the file cannot be written, is being written by another process, or is not a request
  // log.
  explicit Recorder(const std::string& path);
  ~Recorder();  // close(), ignoring errors
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Writes the header, and returns the watcher for the pipeline's engine. The watcher lives as long as the recorder. It
  // makes submit() wait while the disk is far behind.
  RequestWatcher& add_pipeline(const LogHeader& header);
  // Waits until every ended request is in the file. Throws an Error if something could not be written.
  void close();

 private:
  using Item = std::variant<LogHeader, RecordedRequest>;
  void put(Item item);
  void wait_for_room();
  void write_items();

  OutputLines out_;
  std::vector<std::unique_ptr<RequestCollector>> watchers_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closing_ = false;
  std::string error_;  // of the first failed write; nothing is written after it

  std::thread writer_;  // formats and writes, which would delay the delivery threads
};

}  // namespace mortise
