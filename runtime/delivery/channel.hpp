// runtime/delivery/channel.hpp: carries the deltas of one request from the engine's thread to a reader's.
//
// The engine appends and continues: it never waits for a reader. Deltas that the reader has not taken are merged, so a
// channel holds at most one delta for each choice, and that is never larger than the finished answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "delivery/delta.hpp"

namespace mortise {

class SinkChannel;

class Channel {
 public:
  explicit Channel(std::int32_t num_choices);
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Adds a delta. True: the reader is to be woken; it has taken everything that came before.
  // [one thread at a time: the engine's, or the one that passes deltas on to this channel]
  [[nodiscard]] bool append(Delta&& delta);
  // Wakes the reader. A channel that the pool reads adds itself to `ready` instead: the caller hands all of a step to
  // the pool in one piece. [the thread that appends]
  virtual void wake(std::vector<std::shared_ptr<SinkChannel>>& ready) = 0;

  // Moves everything that is there into `deltas`, whose content goes. [reader]
  void take(std::vector<Delta>& deltas);
  // After take(): true when nothing came meanwhile; then the next append() wakes the reader. False: take() again.
  // [reader]
  [[nodiscard]] bool arm();

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<Delta> pending_;
  std::vector<std::int32_t> place_;  // by choice: its delta's index in pending_, -1 if it has none
  bool awake_ = false;               // the reader was woken and has not armed the channel since
};

// A channel whose reader takes from it on a thread of its own. `schedule` makes the reader run soon: it posts to an
// executor, or notifies. It must not block; what it throws is logged. [the thread that appends]
class PulledChannel : public Channel {
 public:
  PulledChannel(std::int32_t num_choices, std::function<void()> schedule)
      : Channel(num_choices), schedule_(std::move(schedule)) {}

  void wake(std::vector<std::shared_ptr<SinkChannel>>& ready) override;
  // Appends and wakes: for a thread that passes deltas on.
  void post(Delta&& delta);

 private:
  const std::function<void()> schedule_;
};

// A channel that a DeliveryPool reads: it calls the tap and the sink with each delta.
class SinkChannel : public Channel, public std::enable_shared_from_this<SinkChannel> {
 public:
  // Either may be empty.
  SinkChannel(std::int32_t num_choices, Tap tap, Sink sink);

  void wake(std::vector<std::shared_ptr<SinkChannel>>& ready) override { ready.push_back(shared_from_this()); }

  // Delivers what is there. A sink that throws is not called again and `abort` is called with the request's id. Tap
  // and sink are destroyed behind the last finish: what they hold is freed here, not on the engine's thread.
  // [one pool thread at a time]
  void deliver(const std::function<void(RequestId)>& abort);

 private:
  void deliver_one(Delta&& delta, const std::function<void(RequestId)>& abort);

  Tap tap_;
  Sink sink_;
  std::int32_t num_open_;
  std::vector<Delta> taken_;
};

}  // namespace mortise
