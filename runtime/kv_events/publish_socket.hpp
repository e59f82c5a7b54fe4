// runtime/kv_events/publish_socket.hpp: the socket at which readers subscribe, in bounded memory. Used by one thread.
//   A reader that is slow    misses messages once kMaxWaiting of them wait for it
//   All queues together      kMaxQueuedBytes of payloads, or four times the largest message if that is more
//   Subscriptions            of topics that are never sent: kMaxStrange
// ZeroMQ can neither disconnect one reader nor drop one subscription. When one of the last two bounds is reached, the
// socket therefore closes all connections and listens again. Readers reconnect and subscribe by themselves. A peer that
// comes back and subscribes to as many topics again can keep others from events, but cannot make memory grow.
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

class PublishSocket {
 public:
  static constexpr int kMaxWaiting = 1000;  // a reader so far behind asks for a replay
  static constexpr std::size_t kMaxQueuedBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxStrange = 1000;

  // Listens. Throws an Error: of the endpoint.
  PublishSocket(zmq::context_t& context, const std::string& endpoint, std::string topic);

  const std::string& endpoint() const { return endpoint_; }  // with the port that was taken
  void* handle() { return socket_.handle(); }                // for zmq::poll; send() and receive() may change it

  void send(std::uint64_t seq, const Payload& payload);
  // Takes what readers have sent. Returns whether there was a new subscription to the topic.
  bool receive();

 private:
  void open(const std::string& endpoint);
  void reopen(const char* why);

  zmq::context_t& context_;
  const std::string topic_;
  // ZeroMQ's thread subtracts what it has sent, also after this object's end.
  std::shared_ptr<std::atomic<std::size_t>> queued_bytes_;
  std::size_t largest_ = 0, num_strange_ = 0;
  std::chrono::steady_clock::time_point warned_at_{};
  std::string endpoint_;
  zmq::socket_t socket_;
};

}  // namespace mortise
