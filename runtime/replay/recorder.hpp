// runtime/replay/recorder.hpp: writes the request log of everything that engines run, whoever submits it.
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

class Recorder {
 public:
  // Creates the log, or continues one: requests of a run before stay, a line that a killed run left half-written goes.
  // Throws an Error when the file cannot be written, is being written by another run, or holds something else.
  explicit Recorder(const std::string& path);
  ~Recorder();  // close(), with what goes wrong swallowed
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Writes the header and returns the watcher for the pipeline's engine, which lives as long as the recorder. The
  // watcher makes submit() wait while the disk is far behind.
  RequestWatcher& add_pipeline(const LogHeader& header);
  // Waits until everything that has ended is in the file. Throws an Error when something could not be written.
  void close();

 private:
  using Item = std::variant<LogHeader, RecordedRequest>;
  void put(Item item);
  void wait_for_room();
  void write_items();

  OutputLines out_;
  std::vector<std::unique_ptr<RequestCollector>> watchers_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closing_ = false;
  std::string error_;  // of the first write that failed; nothing is written after it

  std::thread writer_;  // formatting and writing would hold up the engine's readers
};

}  // namespace mortise
