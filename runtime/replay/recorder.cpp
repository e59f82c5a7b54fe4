#include "replay/recorder.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "error.hpp"
#include "jsonl/json_line.hpp"

namespace mortise {
namespace {

constexpr std::size_t kMaxItems = 4096;  // items in the queue of the writer, before submit() waits
constexpr std::string_view kHeaderBegin = R"({"mortise_log":)";

// The number of bytes in whole lines of a log. Throws if the file is not a log.
std::uint64_t check_log(InputLines& lines) {
  InputLine line;
  std::uint64_t whole = 0;
  bool first = true;
  while (lines.wait_next(line)) {
    const std::string_view begin = kHeaderBegin.substr(0, line.terminated ? kHeaderBegin.size() : line.text.size());
    if (std::exchange(first, false) && !line.text.starts_with(begin)) {
      fail("{}: is not a request log; give --record a new file, or a log to continue", lines.name());
    }
    if (line.terminated) whole = line.end;
  }
  return whole;
}

}  // namespace

Recorder::Recorder(const std::string& path) : out_(path) {
  out_.start(out_.existing() == nullptr ? 0 : check_log(*out_.existing()));
  writer_ = std::thread([this] { write_items(); });
}

Recorder::~Recorder() {
  try {
    close();
  } catch (const Error&) {  // call close() to learn of errors
  }
}

RequestWatcher& Recorder::add_pipeline(const LogHeader& header) {
  put(header);
  return *watchers_.emplace_back(std::make_unique<RequestCollector>(
      header.pipeline, [this](RecordedRequest request) { put(std::move(request)); }, [this] { wait_for_room(); }));
}

void Recorder::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();
  if (!error_.empty()) fail("{}; the log is incomplete", error_);
}

void Recorder::put(Item item) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_.empty()) return;
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void Recorder::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return items_.size() < kMaxItems || !error_.empty() || closing_; });
}

void Recorder::write_items() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !items_.empty(); });
    if (items_.empty()) return;
    const Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    std::string error;
    try {
      out_.write(dump_line(std::visit([](const auto& value) { return to_json(value); }, item)));
    } catch (const std::exception& exception) {
      error = exception.what();
      spdlog::error("recording has ended: {}", error);
    }
    lock.lock();
    if (!error.empty()) {
      error_ = std::move(error);
      items_.clear();
    }
    if (items_.size() + 1 == kMaxItems || !error_.empty()) changed_.notify_all();
    if (!error_.empty()) return;
  }
}

}  // namespace mortise
