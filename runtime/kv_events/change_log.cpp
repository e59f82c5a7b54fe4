#include "kv_events/change_log.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "error.hpp"

namespace mortise {
namespace {

// Twice the most that compaction leaves, so compaction has a constant cost per change.
constexpr std::size_t kPendingPerBlock = 4;
constexpr std::size_t kMinPending = 1024;

}  // namespace

KvChangeLog::KvChangeLog(std::size_t num_blocks, std::int32_t block_size)
    : num_blocks_(num_blocks),
      block_size_(static_cast<std::size_t>(block_size)),
      max_pending_(std::max(kPendingPerBlock * num_blocks, kMinPending)),
      fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) fail("no event descriptor: {}; raise the limit of open files (ulimit -n)", std::strerror(errno));
}

KvChangeLog::~KvChangeLog() {
  ::close(fd_);
}

void KvChangeLog::wake() const {
  const std::uint64_t one = 1;
  // Fails only if the counter is at its maximum; then the descriptor is readable already.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

void KvChangeLog::stored(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) {
  assert(tokens.size() == block_size_);
  add({block, /*stored=*/true, parent}, tokens);
}

void KvChangeLog::removed(BlockId block) {
  add({.block = block}, {});
}

void KvChangeLog::add(const KvChange& change, std::span<const std::int32_t> tokens) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (pending_.list.size() >= max_pending_) compact();
    is_first = pending_.list.empty();
    pending_.list.push_back(change);
    pending_.tokens.insert(pending_.tokens.end(), tokens.begin(), tokens.end());
  }
  if (is_first) wake();  // one system call for all changes until take()
}

void KvChangeLog::take(KvChanges& changes) {
  std::uint64_t count = 0;
  // Before the swap, so that a change between the two makes the descriptor readable again.
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);
  changes.list.clear();
  changes.tokens.clear();
  const std::lock_guard lock(mutex_);
  std::swap(changes, pending_);
}

// Keeps a removal if it is the first change of its block, because readers know that block. Keeps a storage if it is the
// last change of its block. The parent of such a block is still in the tree, because children leave first; if the
// parent's storage is pending, it is kept as well, and comes earlier.
void KvChangeLog::compact() {
  std::vector<std::size_t> last(num_blocks_, 0);
  for (std::size_t i = 0; i < pending_.list.size(); ++i) last[static_cast<std::size_t>(pending_.list[i].block)] = i;
  KvChanges kept;
  std::vector<bool> seen(num_blocks_, false);
  for (const KvChange& change : pending_.list) {
    const auto block = static_cast<std::size_t>(change.block);
    if (!seen[block] && !change.stored) kept.list.push_back(change);
    seen[block] = true;
  }
  auto tokens = pending_.tokens.begin();
  for (std::size_t i = 0; i < pending_.list.size(); ++i) {
    const KvChange& change = pending_.list[i];
    if (!change.stored) continue;
    const auto end = tokens + static_cast<std::ptrdiff_t>(block_size_);
    if (last[static_cast<std::size_t>(change.block)] == i) {
      kept.list.push_back(change);
      kept.tokens.insert(kept.tokens.end(), tokens, end);
    }
    tokens = end;
  }
  pending_ = std::move(kept);
}

}  // namespace mortise
