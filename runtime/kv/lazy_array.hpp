// runtime/kv/lazy_array.hpp: an array of zeros whose memory is allocated when elements are first touched. A GPU with a
// small model has a million KV blocks and uses some thousand; writing an entry for each would take a tenth of a second
// of every start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace mortise {

// Invariant: an element that was never written is zero. Not thread-safe: its owner's thread uses it.
template <typename T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>, "elements are zero bytes");

 public:
  explicit LazyArray(std::size_t size) : size_(size) {
    // The system gives large memory as pages that it zeroes when they are first touched.
    data_.reset(static_cast<T*>(std::calloc(std::max<std::size_t>(size, 1), sizeof(T))));
    if (data_ == nullptr) throw std::bad_alloc();
  }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::size_t size_;
  std::unique_ptr<T, Free> data_;
};

}  // namespace mortise
