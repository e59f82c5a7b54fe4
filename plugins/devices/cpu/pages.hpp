// plugins/devices/cpu/pages.hpp: memory directly from the operating system: zero-filled, committed page by page on
// first touch, in huge pages where that pays. Each object is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace mortise::cpu {

// Allocates single blocks: KV memory, activations, scratch. Invariant: sizes_ has every block that was given out and
// not freed. Used by one thread at a time.
class PageAllocator {
 public:
  PageAllocator() = default;
  ~PageAllocator();
  PageAllocator(const PageAllocator&) = delete;
  PageAllocator& operator=(const PageAllocator&) = delete;

  // Returns memory that is at least 4096-byte aligned. Throws std::bad_alloc when the system has no address space left.
  void* allocate(std::size_t bytes);
  // REQUIRES: `memory` is from allocate() of this object, or null.
  void free(void* memory);

 private:
  std::unordered_map<void*, std::size_t> sizes_;
};

// Packs many weights into few large blocks. Otherwise a model of a few megabytes would consist of small pages, and
// reading it would constantly miss the TLB. A block is unmapped when its last weight is freed. Invariant: the weights
// of a block do not overlap. Used by one thread at a time.
class WeightArena {
 public:
  explicit WeightArena(PageAllocator& pages) : pages_(pages) {}

  void* allocate(std::size_t bytes);  // 64-byte aligned, zero-filled the first time
  void free(void* memory);

 private:
  struct Block {
    std::byte* memory;
    std::size_t size, used;
    int num_weights;
  };
  PageAllocator& pages_;
  std::vector<Block> blocks_;
};

// A buffer that grows and is reused by the next call. Invariant: memory_ has size_ bytes. Used by one thread at a time.
class ScratchBuffer {
 public:
  explicit ScratchBuffer(PageAllocator& pages) : pages_(pages) {}

  // Returns at least `bytes` of memory, 64-byte aligned, with undefined contents. Valid until the next call.
  void* reserve(std::size_t bytes);

 private:
  PageAllocator& pages_;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mortise::cpu
