// runtime/kv_events/change_log.hpp: carries changes of the prefix tree from the engine's thread to the thread that
// publishes them. The engine's thread only copies a block's tokens; it builds no message. Both share a lock that is
// held for a copy or a swap. No change is lost if the reader is slow, and memory is bounded: a log that exceeds its
// limit is compacted to the net changes, at most one removal and one storage for each block. The reader then misses
// intermediate states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "kv/kv_observer.hpp"

namespace mortise {

struct KvChange {
  BlockId block = kPrefixRoot;
  bool stored = false;           // false: removed
  BlockId parent = kPrefixRoot;  // of a stored block
};

// Changes in order, except in a compacted log, where removals come first.
struct KvChanges {
  std::vector<KvChange> list;
  std::vector<std::int32_t> tokens;  // of the stored blocks: block_size tokens each, in the order of `list`
};

// Invariant: applied in order, pending_ turns the tree that the reader knows into the present one. Thread-safe;
// stored() and removed() are called by the engine's thread.
class KvChangeLog : public KvObserver {
 public:
  // Throws an Error if the process has no file descriptor left.
  KvChangeLog(std::size_t num_blocks, std::int32_t block_size);
  ~KvChangeLog() override;
  KvChangeLog(const KvChangeLog&) = delete;
  KvChangeLog& operator=(const KvChangeLog&) = delete;

  void stored(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) override;
  void removed(BlockId block) override;

  // Moves the pending changes into `changes`, and reuses the memory of `changes`. [any thread]
  void take(KvChanges& changes);
  std::size_t num_blocks() const { return num_blocks_; }
  std::int32_t block_size() const { return static_cast<std::int32_t>(block_size_); }
  // For poll(): readable from the first pending change until take(), and after wake(). [any thread]
  int ready_fd() const { return fd_; }
  void wake() const;  // Makes ready_fd() readable. [any thread]

 private:
  void add(const KvChange& change, std::span<const std::int32_t> tokens);
  void compact();

  const std::size_t num_blocks_, block_size_;
  const std::size_t max_pending_;
  int fd_ = -1;
  std::mutex mutex_;  // guards the members below
  KvChanges pending_;
};

}  // namespace mortise
