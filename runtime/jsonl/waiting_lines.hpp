// runtime/jsonl/waiting_lines.hpp: results that are ready but must wait for those of earlier lines, in a file beside
// the output. So memory does not limit them, and they survive the process:
//   HEAD                              one JSON line: the caller's description of everything that results depend on
//   {"line": NUMBER, "result": TEXT}  a line for each result; TEXT is a JSON value, byte for byte as it was kept
// The file exists only while results wait. A kill leaves whole lines and at most one partial line, which the next run
// cuts off. The lock on the output file also covers this file. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace mortise {

// Invariant: records_ names exactly the results that wait in the file. Used by one thread.
class WaitingLines {
 public:
  // Reads the file of an earlier run at `path`, without changing it. Throws an Error if it is another kind of file.
  explicit WaitingLines(std::string path);
  // Removes the file if no result waits in it.
  ~WaitingLines();
  WaitingLines(const WaitingLines&) = delete;
  WaitingLines& operator=(const WaitingLines&) = delete;

  const std::string& path() const { return path_; }
  // The head that an earlier run wrote; nullopt if there is no file.
  const std::optional<nlohmann::json>& head() const { return head_; }
  std::size_t size() const { return records_.size(); }  // number of waiting results

  // Continues the file of the earlier run, or creates one with `head` when the first result is kept.
  // REQUIRES: called before the functions below.
  void start(const nlohmann::json& head);

  // Appends a result and passes it to the system, so it survives the end of the process. Returns false if the file
  // cannot be written; the caller must then keep the result.
  // REQUIRES: no result of this line waits.
  bool keep(std::size_t line, std::string_view result);
  bool contains(std::size_t line) const { return records_.contains(line); }
  // Returns the result of a line; nullopt if none waits. Throws an Error if the file cannot be read.
  std::optional<std::string> read(std::size_t line) const;
  void drop(std::size_t line);        // The result is not needed.
  void drop_up_to(std::size_t line);  // The results up to this line are in the output.
  void remove();                      // Drops all results and removes the file.

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
  bool exists_ = false;  // there is such a file, in any state
  int fd_ = -1;          // opened by start() or the first keep()
  std::optional<nlohmann::json> head_;
  std::map<std::size_t, Record> records_;  // by line number
  std::uint64_t end_ = 0;                  // end of the last whole line
  std::uint64_t head_end_ = 0;
  std::uint64_t waiting_bytes_ = 0;  // of the records' lines
  bool failed_ = false;              // the file cannot be written, so no more results are kept
};

}  // namespace mortise
