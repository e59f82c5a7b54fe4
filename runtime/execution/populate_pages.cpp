#include "execution/populate_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace mortise {

void populate_pages(std::span<std::byte> memory, const std::stop_token& stop, const std::function<bool()>& is_scarce) {
#ifdef MADV_POPULATE_WRITE
  constexpr std::size_t kPiece = 32 << 20;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(memory.data()) + page - 1) & ~(page - 1);
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size()) & ~(page - 1);
  for (std::uintptr_t at = begin; at < end && !stop.stop_requested() && !is_scarce(); at += kPiece) {
    const std::size_t bytes = std::min<std::size_t>(kPiece, end - at);
    if (::madvise(reinterpret_cast<void*>(at), bytes, MADV_POPULATE_WRITE) != 0) return;
  }
#endif
}

}  // namespace mortise
