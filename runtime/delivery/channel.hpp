// runtime/delivery/channel.hpp: carries the deltas of one request from the engine's thread to a reader's.
//
// The engine appends and continues: it never waits for a reader. Deltas that the reader has not taken are merged, so a
// channel holds at most one delta for each choice, and that is never larger than the finished answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "delivery/delta.hpp"

namespace mortise {

class SinkChannel;

// Invariant: pending_ has at most one delta for each choice, and place_ says where. Thread-safe; each function states
// its callers.
class Channel {
 public:
  explicit Channel(std::int32_t num_choices);
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Adds a delta. Returns true if the reader must be woken, because it has taken everything that came before. Leaves
  // `delta` with no tokens, but possibly with a buffer for some, which the reader has given back: otherwise the
  // engine would allocate one for each sequence and step, and readers would free them, all under one lock of the
  // allocator. [one thread at a time: the engine's, or the thread that forwards deltas to this channel]
  [[nodiscard]] bool append(Delta&& delta);
  // Wakes the reader. A channel that the pool reads moves `self`, which owns it, into `ready` instead, and the caller
  // passes all channels of a step to the pool at once. [the thread that appends]
  virtual void wake(std::shared_ptr<Channel>&& self, std::vector<std::shared_ptr<SinkChannel>>& ready) = 0;

  // The reader, on another core, has written to the channel and to the memory of the next delta, and a step has
  // hundreds of channels. So the engine calls prefetch() some channels ahead of its first use of a channel in a step,
  // and prefetch_room() ahead of append(). [the thread that appends]
  void prefetch() const;
  void prefetch_room() const;

  // Replaces the content of `deltas`, which the reader has finished with, by all deltas in the channel. [reader]
  void take(std::vector<Delta>& deltas);
  // After take(): returns true if no delta has come since; the next append() then wakes the reader. If it returns
  // false, take() again. [reader]
  [[nodiscard]] bool arm();

 private:
  std::mutex mutex_;  // guards the members below
  std::vector<Delta> pending_;
  // For each of several choices, the index of its delta in pending_, or -1. Empty for a single choice: its delta is the
  // first.
  std::vector<std::int32_t> place_;
  std::vector<TokenInfo> spare_;  // empty; its buffer is for the next delta of the engine
  bool awake_ = false;            // the reader was woken and has not called arm() since

  std::atomic<const Delta*> room_ = nullptr;  // the memory of pending_, for prefetch_room() alone
};

// A channel whose reader has a thread of its own. `schedule` makes the reader run soon: it posts to an executor or
// notifies. It must not block; its exceptions are logged. [the thread that appends] Invariant: schedule_ never changes.
// Thread-safe as Channel.
class PulledChannel : public Channel {
 public:
  PulledChannel(std::int32_t num_choices, std::function<void()> schedule)
      : Channel(num_choices), schedule_(std::move(schedule)) {}

  void wake(std::shared_ptr<Channel>&& self, std::vector<std::shared_ptr<SinkChannel>>& ready) override;
  // Appends and wakes the reader, for a thread that forwards deltas.
  void post(Delta&& delta);

 private:
  void schedule() const;

  const std::function<void()> schedule_;
};

// A channel that a DeliveryPool reads. It calls the tap and the sink with each delta. Invariant: the sink is not called
// after its last finish, nor after it has thrown. Thread-safe as Channel; delivered by one pool thread at a time.
class SinkChannel : public Channel {
 public:
  // Tap and sink may be empty.
  SinkChannel(std::int32_t num_choices, Tap tap, Sink sink);

  void wake(std::shared_ptr<Channel>&& self, std::vector<std::shared_ptr<SinkChannel>>& ready) override {
    ready.push_back(std::static_pointer_cast<SinkChannel>(std::move(self)));
  }

  // Delivers all deltas in the channel. If the sink throws, it is not called again, and `abort` is called with the
  // request's id. Tap and sink are destroyed after the last finish, so that their memory is not freed on the engine's
  // thread. [one pool thread at a time]
  void deliver(const std::function<void(RequestId)>& abort);

 private:
  void deliver_one(Delta&& delta, const std::function<void(RequestId)>& abort);

  Tap tap_;
  Sink sink_;
  std::int32_t num_open_;
  std::vector<Delta> taken_;
};

}  // namespace mortise
