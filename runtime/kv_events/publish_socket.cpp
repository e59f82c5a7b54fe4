#include "kv_events/publish_socket.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace mortise {
namespace {

// Closes the listening socket and waits until ZeroMQ's thread has done so, because the port is in use until then.
void stop_listening(zmq::context_t& context, zmq::socket_t& socket, const std::string& endpoint) {
  constexpr const char* kMonitor = "inproc://publish-socket-closes";
  constexpr int kMaxWaitMs = 5000;
  zmq_socket_monitor(socket.handle(), kMonitor, ZMQ_EVENT_CLOSED);
  zmq::socket_t closed(context, zmq::socket_type::pair);
  closed.set(zmq::sockopt::linger, 0);
  closed.set(zmq::sockopt::rcvtimeo, kMaxWaitMs);
  closed.connect(kMonitor);
  socket.unbind(endpoint);
  zmq::message_t event;
  static_cast<void>(closed.recv(event));  // if no event comes, the next bind reports the problem
}

}  // namespace

PublishSocket::PublishSocket(zmq::context_t& context, const std::string& endpoint, std::string topic)
    : context_(context), topic_(std::move(topic)) {
  open(endpoint);
}

void PublishSocket::open(const std::string& endpoint) {
  socket_ = zmq::socket_t(context_, zmq::socket_type::xpub);  // PUB for readers; XPUB also reports subscriptions
  // Reports every reader's subscription, not only the first one of a topic.
  socket_.set(zmq::sockopt::xpub_verbose, true);
  socket_.set(zmq::sockopt::sndhwm, kMaxWaiting);
  // ZeroMQ stores all subscriptions in a connection's queue at once. With a queue of one, receive() can count each
  // before the next is stored.
  socket_.set(zmq::sockopt::rcvhwm, 1);
  endpoint_ = listen_at(socket_, endpoint, "--kv-events");
  queued_bytes_ = std::make_shared<std::atomic<std::size_t>>(0);
  num_strange_ = 0;
}

void PublishSocket::send(std::uint64_t seq, const Payload& payload) {
  if (*queued_bytes_ > std::max(kMaxQueuedBytes, 4 * largest_)) reopen("readers that do not read fill its memory");
  largest_ = std::max(largest_, payload->size());
  *queued_bytes_ += payload->size();
  const Payload counted(payload.get(),
                        [payload, queued = queued_bytes_](const std::string*) { *queued -= payload->size(); });
  zmq::message_t topic = copied_frame(topic_), number = copied_frame(seq_bytes(seq)), body = shared_frame(counted);
  send_message(socket_, {&topic, &number, &body});
}

bool PublishSocket::receive() {
  constexpr int kMaxTaken = 1000;  // then events get their turn, however much readers send
  bool is_new = false;
  zmq::message_t message;  // 1 and a topic, or 0 and the topic of a leaving reader
  for (int i = 0; i < kMaxTaken && socket_.recv(message, zmq::recv_flags::dontwait); ++i) {
    const std::string_view text = message.to_string_view();
    if (!text.starts_with('\1')) continue;
    const bool is_ours = topic_.starts_with(text.substr(1));
    is_new = is_new || is_ours;
    num_strange_ += is_ours ? 0 : 1;
    if (num_strange_ <= kMaxStrange) continue;
    reopen("readers subscribe to topics that it does not send");
    return false;  // readers subscribe again
  }
  return is_new;
}

void PublishSocket::reopen(const char* why) {
  constexpr std::chrono::seconds kLogGap{10};  // a reader that repeats this must not fill the log
  const auto now = std::chrono::steady_clock::now();
  if (now - warned_at_ > kLogGap) {
    spdlog::warn("KV events at {}: {}; all readers are disconnected and may connect again", endpoint_, why);
    warned_at_ = now;
  }
  stop_listening(context_, socket_, endpoint_);
  open(endpoint_);
}

}  // namespace mortise
