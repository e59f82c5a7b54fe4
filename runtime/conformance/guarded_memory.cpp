#include "conformance/guarded_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "error.hpp"

namespace mortise::conformance {
namespace {

// This many arrays of one size must have ended before the addresses of the first one are used again.
constexpr std::size_t kUnusedArrays = 256;
constexpr std::size_t kLargeArray = 1 << 18;  // in bytes: from here on, an array that has ended keeps no memory

// Returns the pages of arrays that have ended, oldest first, by size. Static, because pages must outlive every object
// of a case; only the one thread that runs a case uses it.
std::deque<void*>& ended_arrays(std::size_t size) {
  static std::map<std::size_t, std::deque<void*>> all;
  return all[size];
}

std::size_t page_size() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

GuardedPages::GuardedPages(std::size_t bytes) {
  const std::size_t page = page_size();
  size_ = (bytes + page - 1) / page * page;
  if (auto& ended = ended_arrays(size_); ended.size() > kUnusedArrays) {  // a mapping costs more than all else here
    pages_ = ended.front();
    ended.pop_front();
  } else {
    pages_ = ::mmap(nullptr, size_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED) fail("no memory for an array of {} bytes", bytes);
  }
  auto* const first = static_cast<std::byte*>(pages_) + page;
  if (size_ > 0) {
    make_writable();
    std::memset(first, 0xa5, size_);
  }
  data_ = first + size_ - (bytes + 7) / 8 * 8;
}

GuardedPages::~GuardedPages() {
  if (pages_ == nullptr) return;
  const std::size_t bytes = size_ + 2 * page_size();
  ::mprotect(pages_, bytes, PROT_NONE);
  if (size_ >= kLargeArray) ::madvise(pages_, bytes, MADV_DONTNEED);
  ended_arrays(size_).push_back(pages_);
}

GuardedPages::GuardedPages(GuardedPages&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)), size_(other.size_), data_(other.data_) {}

void GuardedPages::make_read_only() {
  if (size_ > 0) ::mprotect(static_cast<std::byte*>(pages_) + page_size(), size_, PROT_READ);
}

void GuardedPages::make_writable() {
  if (size_ > 0) ::mprotect(static_cast<std::byte*>(pages_) + page_size(), size_, PROT_READ | PROT_WRITE);
}

}  // namespace mortise::conformance
