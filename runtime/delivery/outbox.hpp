// runtime/delivery/outbox.hpp: the deltas of one step on their way to the channels. The engine sends them after its
// bookkeeping, so a reader that sees the finish of a request already finds its blocks free in stats(). Engine's thread
// only.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "delivery/channel.hpp"
#include "delivery/delivery_pool.hpp"

namespace mortise {

// Invariant: without deltas after send(). Engine's thread only.
class Outbox {
 public:
  explicit Outbox(DeliveryPool& pool) : pool_(pool) {}  // `pool` outlives it

  void add(const std::shared_ptr<Channel>& channel, Delta&& delta) { entries_.emplace_back(channel, std::move(delta)); }
  // A buffer of an earlier delta for the tokens of a next one, or none. Always empty.
  std::vector<TokenInfo> take_buffer() {
    if (buffers_.empty()) return {};
    std::vector<TokenInfo> buffer = std::move(buffers_.back());
    buffers_.pop_back();
    return buffer;
  }
  // Appends all deltas to their channels, then wakes each waiting reader. The pool is woken once for all its channels.
  void send();

 private:
  DeliveryPool& pool_;
  std::vector<std::pair<std::shared_ptr<Channel>, Delta>> entries_;
  std::vector<std::shared_ptr<SinkChannel>> ready_;
  std::vector<std::vector<TokenInfo>> buffers_;  // at most kMaxBuffers
  static constexpr std::size_t kMaxBuffers = 1024;
};

}  // namespace mortise
