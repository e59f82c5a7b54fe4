// runtime/kv_events/change_log.hpp: carries changes of the prefix tree from the engine's thread to the thread that
// publishes them. The engine's thread copies a block's tokens and goes on; it builds no message. The two share a lock
// that is held for a copy or a swap.
// Nothing is lost when the reader is slow, and memory stays bounded: a log that grows past its limit is compacted to
// what changed in sum, which is at most a removal and a storage for each block. The reader then misses states in
// between.
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

// In their order, but for a compacted log: removals come first there.
struct KvChanges {
  std::vector<KvChange> list;
  std::vector<std::int32_t> tokens;  // of the stored blocks, block_size each, in the order of `list`
};

class KvChangeLog : public KvObserver {
 public:
  // Throws an Error when the process has no file descriptor left.
  KvChangeLog(std::size_t num_blocks, std::int32_t block_size);
  ~KvChangeLog() override;
  KvChangeLog(const KvChangeLog&) = delete;
  KvChangeLog& operator=(const KvChangeLog&) = delete;

  void stored(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) override;
  void removed(BlockId block) override;

  // Moves what is pending into `changes`, whose memory the log goes on with. [any thread]
  void take(KvChanges& changes);
  std::size_t num_blocks() const { return num_blocks_; }
  std::int32_t block_size() const { return static_cast<std::int32_t>(block_size_); }
  // Readable, for poll(), from the first pending change until take(), and after wake(). [any thread]
  int ready_fd() const { return fd_; }
  void wake() const;  // Makes ready_fd() readable. [any thread]

 private:
  void add(const KvChange& change, std::span<const std::int32_t> tokens);
  void compact();

  const std::size_t num_blocks_, block_size_;
  const std::size_t max_pending_;
  int fd_ = -1;
  std::mutex mutex_;  // guards what follows
  KvChanges pending_;
};

}  // namespace mortise
