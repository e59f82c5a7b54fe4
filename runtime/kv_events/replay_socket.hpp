// runtime/kv_events/replay_socket.hpp: the socket at which readers ask for messages that they missed, with bounded
// memory. A reader gets one answer at a time, and at most `max_answers` readers get one at the same time. Further
// requests are ignored until an earlier answer has been sent or its reader has gone. Answers share their payloads with
// the replay buffer. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "kv_events/frames.hpp"
#include "kv_events/replay_buffer.hpp"

namespace mortise {

// Invariant: a reader has at most one answer that is not sent. Used by one thread.
class ReplaySocket {
 public:
  static constexpr std::size_t kMaxAnswers = 64;

  struct Request {
    std::string reader;  // ZeroMQ's name of the connection
    std::uint64_t from = 0;
  };

  // Listens. Throws an Error about the endpoint.
  ReplaySocket(zmq::context_t& context, const std::string& endpoint, std::string topic,
               std::size_t max_answers = kMaxAnswers);

  const std::string& endpoint() const { return endpoint_; }  // with the actual port
  void* handle() { return socket_.handle(); }                // for zmq::poll

  // Returns the next request; nullopt if there is none, or if it is ignored.
  std::optional<Request> receive();
  void answer(const Request& request, const std::vector<ReplayBuffer::Message>& messages);

 private:
  bool may_answer(const std::string& reader);

  const std::string topic_;
  const std::size_t max_answers_;
  std::map<std::string, std::weak_ptr<const std::string>> waiting_;  // by reader; expires when the answer has been sent
  zmq::socket_t socket_;
  std::string endpoint_;
};

}  // namespace mortise
