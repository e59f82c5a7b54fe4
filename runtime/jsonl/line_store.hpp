// runtime/jsonl/line_store.hpp: stores texts in a temporary file and returns them by number. The file has no name, so
// it disappears with the process, however the process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// Takes eight bytes of memory per text. Used by one thread at a time. Invariant: ends_ ascends.
class LineStore {
 public:
  LineStore();  // throws an Error if no file can be created
  ~LineStore();
  LineStore(const LineStore&) = delete;
  LineStore& operator=(const LineStore&) = delete;

  void add(std::string_view text);             // throws an Error if the file cannot be written
  std::string read(std::size_t number) const;  // text number `number`, from 0. REQUIRES: number < size()
  std::size_t size() const { return ends_.size(); }

 private:
  std::string folder_;  // TMPDIR, or /tmp
  int fd_ = -1;
  std::vector<std::uint64_t> ends_;  // end of each text in the file
};

}  // namespace mortise
