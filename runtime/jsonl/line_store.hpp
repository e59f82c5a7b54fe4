// runtime/jsonl/line_store.hpp: texts that are put away in a file of the folder for temporary files, and asked
// for by number. The file has no name, so it is gone with the process, however that ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// One thread at a time. Memory: eight bytes a text.
class LineStore {
 public:
  LineStore();  // throws an Error when no file can be made
  ~LineStore();
  LineStore(const LineStore&) = delete;
  LineStore& operator=(const LineStore&) = delete;

  void add(std::string_view text);             // throws an Error when the file cannot be written
  std::string read(std::size_t number) const;  // the text that was added as this one, from 0. REQUIRES: number < size()
  std::size_t size() const { return ends_.size(); }

 private:
  std::string folder_;  // TMPDIR, or /tmp
  int fd_ = -1;
  std::vector<std::uint64_t> ends_;  // offset behind each text
};

}  // namespace mortise
