// runtime/kv_events/publish_socket.hpp: the socket at which readers subscribe, with bounded memory. Used by one thread.
//   A slow reader        misses messages once kMaxWaiting of them wait for it
//   All queues together  kMaxQueuedBytes of payloads, or four times the largest message if that is more
//   Subscriptions        to topics that are never sent: kMaxStrange
// ZeroMQ can neither disconnect one reader nor drop one subscription. So when one of the last two limits is reached,
// the socket closes all connections and listens again. Readers reconnect and subscribe by themselves. A peer that
// repeats this can keep events from others, but cannot make memory grow.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <zmq.hpp>

#include "kv_events/frames.hpp"

namespace mortise {

// Invariant: queued_bytes_ counts the payloads that ZeroMQ still holds. Used by one thread.
class PublishSocket {
 public:
  static constexpr int kMaxWaiting = 1000;  // a reader that is further behind asks for a replay
  static constexpr std::size_t kMaxQueuedBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxStrange = 1000;

  // Listens. Throws an Error about the endpoint.
  PublishSocket(zmq::context_t& context, const std::string& endpoint, std::string topic);

  const std::string& endpoint() const { return endpoint_; }  // with the actual port
  void* handle() { return socket_.handle(); }                // for zmq::poll; send() and receive() may change it

  void send(std::uint64_t seq, const Payload& payload);
  // Reads everything that readers have sent. Returns whether there was a new subscription to the topic.
  bool receive();

 private:
  void open(const std::string& endpoint);
  void reopen(const char* why);

  zmq::context_t& context_;
  const std::string topic_;
  // ZeroMQ's thread subtracts sent bytes, even after this object is destroyed.
  std::shared_ptr<std::atomic<std::size_t>> queued_bytes_;
  std::size_t largest_ = 0, num_strange_ = 0;
  std::chrono::steady_clock::time_point warned_at_{};
  std::string endpoint_;
  zmq::socket_t socket_;
};

}  // namespace mortise
