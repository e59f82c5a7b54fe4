// runtime/checkpoint/gguf/keys.hpp: reads the keys of a GGUF file by type, and knows which ones were read, so that a
// key that nobody reads can be refused instead of ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "checkpoint/gguf/file.hpp"

namespace mortise {

// Used by one thread. `file` must outlive it, and texts and arrays are the file's. Each function throws an Error if the
// value is of another type.
class GgufKeys {
 public:
  explicit GgufKeys(const GgufFile& file) : file_(file) {}

  const GgufFile& file() const { return file_; }
  bool has(const std::string& key) const { return file_.keys().contains(key); }

  std::optional<std::uint64_t> whole(const std::string& key, std::uint64_t max = INT32_MAX);
  std::optional<double> number(const std::string& key);  // finite
  std::optional<bool> truth(const std::string& key);
  std::optional<std::string_view> text(const std::string& key);  // valid UTF-8
  const GgufArray* array(const std::string& key);                // nullptr: there is none
  // The same for a key that must be there.
  std::uint64_t need_whole(const std::string& key, std::uint64_t max = INT32_MAX);
  double need_number(const std::string& key);

  // Counts the key as read.
  void pass(const std::string& key) { read_.insert(key); }

  // Throws an Error: "FILE: key 'KEY' at byte N is VALUE; REST". REQUIRES: the key is there.
  [[noreturn]] void refuse(const std::string& key, std::string_view rest) const;
  // Throws an Error for a key that begins with `prefix` and that was not read.
  void refuse_unread(std::string_view prefix, std::string_view served) const;

 private:
  const GgufValue* find(const std::string& key);

  const GgufFile& file_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace mortise
