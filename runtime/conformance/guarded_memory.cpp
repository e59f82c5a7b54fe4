#include "conformance/guarded_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <utility>

#include "error.hpp"

namespace mortise::conformance {
namespace {

constexpr std::size_t kMostFormerPages = 8192;

std::size_t page_size() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

GuardedPages::GuardedPages(std::size_t bytes) {
  const std::size_t page = page_size();
  size_ = (bytes + page - 1) / page * page;
  pages_ = ::mmap(nullptr, size_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages_ == MAP_FAILED) fail("no memory for an array of {} bytes", bytes);
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
  ::madvise(pages_, bytes, MADV_DONTNEED);
  static std::deque<std::pair<void*, std::size_t>> former;  // of the one thread that runs a case
  former.emplace_back(pages_, bytes);
  if (former.size() <= kMostFormerPages) return;
  ::munmap(former.front().first, former.front().second);
  former.pop_front();
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
