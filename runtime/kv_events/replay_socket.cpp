#include "kv_events/replay_socket.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace mortise {
namespace {

constexpr std::uint64_t kEndSeq = ~std::uint64_t{0};

// Returns an empty list if no message has come.
std::vector<std::string> receive_frames(zmq::socket_t& socket) {
  std::vector<std::string> frames;
  do {
    zmq::message_t frame;
    if (!socket.recv(frame, zmq::recv_flags::dontwait)) return {};
    if (frames.size() < 4) frames.push_back(frame.to_string());  // a request has three
  } while (socket.get(zmq::sockopt::rcvmore));
  return frames;
}

}  // namespace

ReplaySocket::ReplaySocket(zmq::context_t& context, const std::string& endpoint, std::string topic,
                           std::size_t max_answers)
    : topic_(std::move(topic)), max_answers_(max_answers), socket_(context, zmq::socket_type::router) {
  socket_.set(zmq::sockopt::sndhwm, 0);  // may_answer() is the limit; ZeroMQ's limit would drop the middle of an answer
  endpoint_ = listen_at(socket_, endpoint, "--kv-events-replay");
}

std::optional<ReplaySocket::Request> ReplaySocket::receive() {
  const std::vector<std::string> frames = receive_frames(socket_);
  if (frames.empty()) return std::nullopt;
  // The reader's name, an empty frame (which REQ sockets add), and the number.
  if (frames.size() != 3 || !frames[1].empty() || frames[2].size() != 8) {
    spdlog::warn("{}: a replay request that is not an empty frame and a number of 8 bytes was ignored", endpoint_);
    return std::nullopt;
  }
  if (!may_answer(frames[0])) {
    spdlog::debug("{}: a replay request was ignored: an earlier answer has not been read yet", endpoint_);
    return std::nullopt;
  }
  return Request{frames[0], read_seq(frames[2])};
}

bool ReplaySocket::may_answer(const std::string& reader) {
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.expired(); });
  return waiting_.size() < max_answers_ && !waiting_.contains(reader);
}

void ReplaySocket::answer(const Request& request, const std::vector<ReplayBuffer::Message>& messages) {
  const auto send = [&](zmq::message_t topic, zmq::message_t seq, zmq::message_t payload) {
    zmq::message_t reader = copied_frame(request.reader), empty;
    send_message(socket_, {&reader, &empty, &topic, &seq, &payload});
  };
  for (const ReplayBuffer::Message& message : messages) {
    send(copied_frame(topic_), copied_frame(seq_bytes(message.seq)), shared_frame(message.payload));
  }
  // ZeroMQ releases this frame before it sends the next one, so a reader that has received the end may ask again.
  const auto end = std::make_shared<const std::string>(seq_bytes(kEndSeq));
  waiting_[request.reader] = end;
  send({}, shared_frame(end), {});
}

}  // namespace mortise
