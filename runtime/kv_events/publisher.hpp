// runtime/kv_events/publisher.hpp: publishes over ZeroMQ which KV blocks an engine's prefix cache holds, as vLLM does,
// for routers that send a request to the replica with the longest cached prefix.
//   PUB     [topic, seq, payload]          seq: 8 bytes, big endian, from 0; payload: msgpack of [seconds, events, nil]
//   ROUTER  a request [seq], of DEALER [empty, seq], is answered with the messages from seq on, [empty, topic, seq,
//           payload] each, then with [empty, empty, -1, empty]
// Message 0 is AllBlocksCleared, since a restarted server has an empty cache. After a new subscription, at most once a
// second, a message to all readers clears the tree and describes every block. If requested messages are no longer kept,
// the answer is such a message with the latest seq. So a reader always ends up with the right state. Anybody may
// connect, so memory is bounded whatever readers do. A frame of more than 256 bytes ends its connection, and so does a
// reader that accepts no data for 30 s. PUB: publish_socket.hpp (64 MiB for all slow readers together). ROUTER:
// replay_socket.hpp (one answer at a time per reader, 64 in all, which share the kept payloads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kv/kv_observer.hpp"
#include "kv_events/change_log.hpp"

namespace mortise {

struct KvEventOptions {
  std::string endpoint;  // "tcp://127.0.0.1:5557": endpoint of the PUB socket; port * takes a free one
  std::string replay;    // endpoint of the ROUTER socket; empty: no replay
  std::string topic;
  std::size_t max_kept = 10'000;  // messages for replay, as many as vLLM keeps, but at most 64 MiB
};

// The events of one engine. Owns the publishing thread; its functions are called by one thread. Invariant: publishing_
// is set while it listens.
class KvEventPublisher {
 public:
  // Until listen() it only records what the engine stores, in bounded memory. `num_blocks` and `block_size` are the
  // engine's. Throws an Error if the process has no file descriptor left.
  KvEventPublisher(const KvEventOptions& options, std::size_t num_blocks, std::int32_t block_size);
  // REQUIRES: the engine has ended.
  ~KvEventPublisher();
  KvEventPublisher(const KvEventPublisher&) = delete;
  KvEventPublisher& operator=(const KvEventPublisher&) = delete;

  // Listens. A thread publishes from now on, beginning with the blocks that are cached already. Throws an Error about
  // an endpoint, with kUnavailable if another process has its port; listen() may then be called again.
  // REQUIRES: it has not listened before.
  void listen();
  // Ends the thread and frees the ports before it returns. Readers get no more events; the engine may continue. Does
  // nothing if it does not listen.
  void stop();
  bool listens() const;

  KvObserver& observer();            // for the engine
  const KvEventOptions& at() const;  // REQUIRES: it listens; with the actual ports

 private:
  struct Publishing;
  KvEventOptions options_;
  KvChangeLog log_;
  std::unique_ptr<Publishing> publishing_;  // null: it does not listen
};

}  // namespace mortise
