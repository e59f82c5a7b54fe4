#include "kv_events/frames.hpp"

#include <cerrno>

#include "error.hpp"

namespace mortise {
namespace {

// The most bytes of a frame from a reader. A request has 8 bytes, a subscription is a topic.
constexpr std::int64_t kMaxReceivedBytes = 256;
// A reader that accepts no data for this long is disconnected, and its queue is freed.
constexpr int kMaxStallMs = 30'000;

}  // namespace

std::string seq_bytes(std::uint64_t seq) {
  std::string bytes(8, '\0');
  for (int i = 7; i >= 0; --i, seq >>= 8) bytes[static_cast<std::size_t>(i)] = static_cast<char>(seq & 0xff);
  return bytes;
}

std::uint64_t read_seq(std::string_view bytes) {
  std::uint64_t seq = 0;
  for (const char byte : bytes) seq = seq << 8 | static_cast<unsigned char>(byte);
  return seq;
}

zmq::message_t copied_frame(std::string_view bytes) {
  return zmq::message_t(bytes.data(), bytes.size());
}

zmq::message_t shared_frame(const Payload& payload) {
  auto held = std::make_unique<Payload>(payload);
  // ZeroMQ's interface takes a mutable pointer, but only reads.
  zmq::message_t frame(
      const_cast<char*>(payload->data()), payload->size(),
      [](void*, void* hint) { delete static_cast<Payload*>(hint); }, held.get());
  static_cast<void>(held.release());
  return frame;
}

void send_message(zmq::socket_t& socket, std::initializer_list<zmq::message_t*> frames) {
  std::size_t left = frames.size();
  for (zmq::message_t* frame : frames) {
    const auto more = --left > 0 ? zmq::send_flags::sndmore : zmq::send_flags::none;
    static_cast<void>(socket.send(*frame, more | zmq::send_flags::dontwait));
  }
}

std::string listen_at(zmq::socket_t& socket, const std::string& endpoint, const char* option) {
  try {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::maxmsgsize, kMaxReceivedBytes);
    socket.set(zmq::sockopt::tcp_maxrt, kMaxStallMs);
    socket.bind(endpoint);
    return socket.get(zmq::sockopt::last_endpoint);
  } catch (const zmq::error_t& error) {
    fail(error.num() == EADDRINUSE ? ErrorCode::kUnavailable : ErrorCode::kInvalid,
         "{} {}: cannot listen there: {}; give an address of this machine and a port that is free, like "
         "tcp://127.0.0.1:5557",
         option, endpoint, error.what());
  }
}

}  // namespace mortise
