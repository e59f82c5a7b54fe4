// runtime/checkpoint/gguf/cursor.hpp: reads numbers and texts from the bytes of a GGUF file, one after the other, and
// never beyond their end. Internal to this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {

// Used by one thread. Invariant: offset() <= bytes().size().
class GgufCursor {
 public:
  // `bytes` and `where`, the name of the file, must outlive the cursor.
  GgufCursor(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  const std::string& where() const { return where_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint64_t offset() const { return at_; }
  std::uint64_t bytes_left() const { return bytes_.size() - at_; }

  // Names what is read now ("key 'x'") and where it began, for messages.
  void set_item(std::string item, std::uint64_t offset) {
    item_ = std::move(item);
    item_offset_ = offset;
  }

  // Up to `count` of the next bytes, which are not passed.
  std::string_view peek(std::size_t count) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at_, std::min<std::size_t>(count, bytes_left())};
  }
  // REQUIRES: they are there.
  void skip(std::size_t count) { at_ += count; }

  // The next `count` bytes. REQUIRES: they are there.
  std::span<const std::byte> take(std::uint64_t count) {
    const auto out = bytes_.subspan(at_, count);
    at_ += count;
    return out;
  }

  template <typename T>
  T number(const char* what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  // A length of 64 bits and as many bytes.
  std::string_view text(const char* what, std::uint64_t max_bytes) {
    const auto length = number<std::uint64_t>(what);
    if (length > max_bytes) {
      fail_here(fmt::format("{} has {} bytes; at most {} are allowed", what, length, max_bytes));
    }
    need(length, what);
    const std::string_view out = peek(length);
    at_ += length;
    return out;
  }

  [[noreturn]] void fail_here(const std::string& problem) const {
    fail("{}: {} at byte {}: {}; the file is damaged: download it again", where_, item_, item_offset_, problem);
  }

 private:
  void need(std::uint64_t count, const char* what) const {
    if (count <= bytes_left()) return;
    fail("{}: {} bytes, but {} at byte {} ({} of {}) needs {}; the file is truncated: download it again", where_,
         bytes_.size(), what, at_, item_, item_offset_, count);
  }

  const std::span<const std::byte> bytes_;
  const std::string& where_;
  std::uint64_t at_ = 0;
  std::string item_ = "the header";
  std::uint64_t item_offset_ = 0;
};

}  // namespace mortise
