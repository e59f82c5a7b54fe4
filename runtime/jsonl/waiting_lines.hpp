// runtime/jsonl/waiting_lines.hpp: results that are ready but must wait for the results of earlier lines, in a file
// beside the output, so that neither memory nor the end of the process limits them:
//   HEAD                              one JSON line: what all results depend on; the caller decides what is in it
//   {"line": NUMBER, "result": TEXT}  a line for each result; TEXT is a JSON value, byte for byte as it was kept
// The file exists only while results wait. A kill at any byte leaves whole lines and at most one part of a line, which
// the next run cuts off. The lock on the output file covers this file. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace mortise {

class WaitingLines {
 public:
  // Reads what an earlier run left in the file at `path`; changes nothing. Throws an Error when the file is something
  // else, which is then left alone.
  explicit WaitingLines(std::string path);
  // Removes the file if nothing waits in it.
  ~WaitingLines();
  WaitingLines(const WaitingLines&) = delete;
  WaitingLines& operator=(const WaitingLines&) = delete;

  const std::string& path() const { return path_; }
  // The head that an earlier run wrote; nullopt: there is no file.
  const std::optional<nlohmann::json>& head() const { return head_; }
  std::size_t size() const { return records_.size(); }  // results that wait

  // Continues the earlier run's file, or begins a new one with `head` as soon as a result is kept. REQUIRES: called
  // before the functions below.
  void start(const nlohmann::json& head);

  // Appends a result and hands it to the system: it stays when the process dies. REQUIRES: none of this line waits.
  // False: the file cannot be written, so the caller has to keep the result.
  bool keep(std::size_t line, std::string_view result);
  bool contains(std::size_t line) const { return records_.contains(line); }
  // The result of a line; nullopt: none waits. Throws an Error when the file cannot be read.
  std::optional<std::string> read(std::size_t line) const;
  void drop(std::size_t line);        // The result is not wanted.
  void drop_up_to(std::size_t line);  // This result and those of earlier lines are in the output.
  void remove();                      // Drops all results, and removes the file.

 private:
  struct Record {
    std::uint64_t begin = 0, bytes = 0;  // of TEXT in the file
  };

  void read_records();
  bool append(std::string_view text);
  void dropped(std::uint64_t bytes);
  bool rewrite();
  std::string temporary_path() const { return path_ + ".new"; }

  std::string path_;
  bool exists_ = false;  // a file of ours, in whatever state
  int fd_ = -1;          // open from start() or the first keep() on
  std::optional<nlohmann::json> head_;
  std::map<std::size_t, Record> records_;  // by line number
  std::uint64_t end_ = 0;                  // of the last whole line
  std::uint64_t head_end_ = 0;
  std::uint64_t waiting_bytes_ = 0;  // of the records' lines
  bool failed_ = false;              // cannot be written: nothing more is kept
};

}  // namespace mortise
