// runtime/conformance/guarded_memory.hpp: arrays that end at a page which nobody may touch, so that a plugin that reads
// or writes beyond an array crashes where it does so. An array can also be made read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

namespace mortise::conformance {

// Pages of memory between two guard pages. After destruction the addresses stay inaccessible for a while, so that a
// plugin that kept a pointer crashes. Invariant: data() lies between the guard pages. Used by one thread.
class GuardedPages {
 public:
  // Throws an Error if there is no memory. The bytes are filled with 0xa5.
  explicit GuardedPages(std::size_t bytes);
  ~GuardedPages();
  GuardedPages(GuardedPages&& other) noexcept;
  GuardedPages& operator=(GuardedPages&&) = delete;

  // The memory ends exactly at the guard page if `bytes` is a multiple of 8, otherwise up to 7 bytes before it.
  void* data() const { return data_; }
  void make_read_only();
  void make_writable();

 private:
  void* pages_ = nullptr;
  std::size_t size_ = 0;  // of the pages between the guards
  void* data_ = nullptr;
};

// An array in guarded pages. Invariant: size() elements end right before the guard page. Used by one thread.
template <typename T>
class GuardedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit GuardedArray(std::size_t size) : pages_(size * sizeof(T)), size_(size) {}
  explicit GuardedArray(std::span<const T> values) : GuardedArray(values.size()) {
    if (size_ > 0) std::memcpy(data(), values.data(), values.size_bytes());
  }

  T* data() const { return static_cast<T*>(pages_.data()); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) const { return data()[i]; }
  std::span<T> span() const { return {data(), size_}; }
  void make_read_only() { pages_.make_read_only(); }

 private:
  GuardedPages pages_;
  std::size_t size_;
};

// Copies of arrays in read-only guarded memory, for one call. Used by one thread. Invariant: a copy stays where it is
// and read-only while this object lives.
class ReadOnlyCopies {
 public:
  // The copy lives as long as this object. NULL stays NULL.
  template <typename T>
  const T* copy(const T* values, std::int64_t count) {
    if (values == nullptr) return nullptr;
    GuardedPages& pages = pages_.emplace_back(static_cast<std::size_t>(count) * sizeof(T));
    if (count > 0) std::memcpy(pages.data(), values, static_cast<std::size_t>(count) * sizeof(T));
    pages.make_read_only();
    return static_cast<const T*>(pages.data());
  }
  template <typename T>
  const T* copy(const std::vector<T>& values) {
    return copy(values.data(), static_cast<std::int64_t>(values.size()));
  }

 private:
  std::deque<GuardedPages> pages_;
};

}  // namespace mortise::conformance
