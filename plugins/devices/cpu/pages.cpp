#include "devices/cpu/pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <new>

namespace mortise::cpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = std::size_t{4} << 20;  // for less memory, rounding up to huge pages wastes too much
constexpr std::size_t kArenaBlock = std::size_t{32} << 20;  // pages that no weight touches take no memory
constexpr std::size_t kLine = 64;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  if (bytes > SIZE_MAX - unit) throw std::bad_alloc();
  return (bytes + unit - 1) / unit * unit;
}

std::byte* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

// Maps more than needed and unmaps both ends, because huge pages need an aligned address.
std::byte* map_huge(std::size_t bytes) {
  std::byte* const first = map(bytes + kHugePage);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(first) % kHugePage) % kHugePage;
  std::byte* const memory = first + before;
  if (before > 0) munmap(first, before);
  munmap(memory + bytes, kHugePage - before);
  madvise(memory, bytes, MADV_HUGEPAGE);  // a hint; if it is refused, small pages serve as well
  return memory;
}

}  // namespace

PageAllocator::~PageAllocator() {
  for (const auto& [memory, size] : sizes_) munmap(memory, size);
}

void* PageAllocator::allocate(std::size_t bytes) {
  const bool huge = bytes >= kHugeFrom;
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), huge ? kHugePage : kPage);
  if (size > SIZE_MAX - kHugePage) throw std::bad_alloc();
  void* memory = huge ? map_huge(size) : map(size);
  sizes_.emplace(memory, size);
  return memory;
}

void PageAllocator::free(void* memory) {
  if (memory == nullptr) return;
  const auto it = sizes_.find(memory);
  assert(it != sizes_.end());
  if (it == sizes_.end()) return;
  munmap(memory, it->second);
  sizes_.erase(it);
}

void* WeightArena::allocate(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kLine);
  if (blocks_.empty() || blocks_.back().size - blocks_.back().used < size) {
    const std::size_t block = std::max(size, kArenaBlock);
    blocks_.push_back({static_cast<std::byte*>(pages_.allocate(block)), block, 0, 0});
  }
  Block& block = blocks_.back();
  void* memory = block.memory + block.used;
  block.used += size;
  ++block.num_weights;
  return memory;
}

void WeightArena::free(void* memory) {
  const auto it = std::find_if(blocks_.begin(), blocks_.end(), [=](const Block& block) {
    return memory >= block.memory && memory < block.memory + block.used;
  });
  assert(it != blocks_.end());
  if (it == blocks_.end() || --it->num_weights > 0) return;
  pages_.free(it->memory);
  blocks_.erase(it);
}

void* ScratchBuffer::reserve(std::size_t bytes) {
  if (bytes <= size_) return memory_;
  pages_.free(memory_);
  memory_ = nullptr, size_ = 0;
  memory_ = pages_.allocate(bytes);
  size_ = bytes;
  return memory_;
}

}  // namespace mortise::cpu
