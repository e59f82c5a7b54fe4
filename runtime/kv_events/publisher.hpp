// runtime/kv_events/publisher.hpp: publishes over ZeroMQ which KV blocks an engine's prefix cache holds, as vLLM does,
// for routers that send a request to the replica with most of its prefix.
//   PUB     [topic, seq, payload]          seq: 8 bytes, big endian, from 0; payload: msgpack of [seconds, events, nil]
//   ROUTER  a request [seq], of DEALER [empty, seq], is answered with the messages from seq on, [empty, topic, seq,
//           payload] each, then with [empty, empty, -1, empty]
// Message 0 says AllBlocksCleared: a restarted server has an empty cache. Behind a new subscription comes a message to
// all that clears and tells every block, once a second at most. Where the messages that are asked for are no longer
// kept, the answer is one message with the latest seq that does the same: a reader always ends up with the truth.
// Anybody may connect, so memory is bounded whatever readers do. Frames of more than 256 bytes end their connection,
// and so do 30 s in which a reader takes nothing. PUB: publish_socket.hpp (64 MiB for all slow readers together).
// ROUTER: replay_socket.hpp (one answer at a time per reader, 64 at a time in all, which share the payloads that are
// kept).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kv/kv_observer.hpp"
#include "kv_events/change_log.hpp"

namespace mortise {

struct KvEventOptions {
  std::string endpoint;  // "tcp://127.0.0.1:5557": what the PUB socket listens at; port * for a free one
  std::string replay;    // what the ROUTER socket listens at; empty: no replay
  std::string topic;
  std::size_t max_kept = 10'000;  // messages for replay, as many as vLLM keeps; within 64 MiB
};

class KvEventPublisher {
 public:
  // Only takes note of what the engine stores, in bounded memory, until listen(). `num_blocks` and `block_size` are the
  // engine's. Throws an Error when the process has no file descriptor left.
  KvEventPublisher(const KvEventOptions& options, std::size_t num_blocks, std::int32_t block_size);
  // REQUIRES: the engine has ended.
  ~KvEventPublisher();
  KvEventPublisher(const KvEventPublisher&) = delete;
  KvEventPublisher& operator=(const KvEventPublisher&) = delete;

  // Listens; a thread publishes from now on, what is cached already included. Throws an Error: of an endpoint, with
  // kUnavailable when another process has its port. Then it may be called again. REQUIRES: it has not listened before.
  void listen();
  // Ends the thread and lets go of the ports: they are free when this returns. Readers hear no more of this engine, and
  // it may go on. Nothing happens when it does not listen.
  void stop();
  bool listens() const;

  KvObserver& observer();            // for the engine
  const KvEventOptions& at() const;  // once it listens, with the ports that were taken

 private:
  struct Publishing;
  KvEventOptions options_;
  KvChangeLog log_;
  std::unique_ptr<Publishing> publishing_;  // null: it does not listen
};

}  // namespace mortise
