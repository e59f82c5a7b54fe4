#include "kv_events/publish_socket.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace mortise {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMiB = std::size_t{1} << 20;

Payload bytes(std::size_t count) {
  return std::make_shared<const std::string>(count, 'x');
}

class PublishSocketTest : public testing::Test {
 protected:
  zmq::socket_t reader(zmq::socket_type type) {
    zmq::socket_t socket(context_, type);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvhwm, 1);
    socket.set(zmq::sockopt::reconnect_ivl, 10);
    socket.connect(socket_.endpoint());
    return socket;
  }

  // Serves the socket until `ends` says so.
  template <typename Ends>
  void serve_until(Ends ends) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    std::vector<zmq::pollitem_t> items(1);
    while (!ends()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      items[0] = {socket_.handle(), 0, ZMQ_POLLIN, 0};
      zmq::poll(items, 10ms);
      if (socket_.receive()) ++num_subscribed_;
    }
  }

  // Sends small messages until `reader` receives one of them.
  void expect_messages(zmq::socket_t& reader) {
    std::uint64_t seq = 1'000'000;
    zmq::message_t frame;
    serve_until([&] {
      socket_.send(seq++, bytes(1));
      for (zmq::message_t message; reader.recv(message, zmq::recv_flags::dontwait);) frame = std::move(message);
      return frame.to_string() == "x";
    });
  }

  zmq::context_t context_;
  PublishSocket socket_{context_, "tcp://127.0.0.1:*", "kv@here"};
  int num_subscribed_ = 0;
};

TEST_F(PublishSocketTest, SubscriptionsToTheTopicAreToldAndOthersAreNot) {
  zmq::socket_t other = reader(zmq::socket_type::xsub), ours = reader(zmq::socket_type::xsub);
  for (const char* topic : {"\1kv@there", "\1kv@here/and/more"}) other.send(zmq::buffer(std::string(topic)));
  expect_messages([&]() -> zmq::socket_t& {
    ours.send(zmq::str_buffer("\1kv@"));
    return ours;
  }());
  // 3: a reader of something else makes everybody hear everything. 2: the connection broke and came again.
  EXPECT_LT(num_subscribed_, 3);
}

TEST_F(PublishSocketTest, ALargeFrameEndsItsConnection) {
  zmq::socket_t hostile = reader(zmq::socket_type::xsub), good = reader(zmq::socket_type::sub);
  good.set(zmq::sockopt::subscribe, "");
  expect_messages(good);
  zmq_socket_monitor(hostile.handle(), "inproc://hostile", ZMQ_EVENT_DISCONNECTED);
  zmq::socket_t events(context_, zmq::socket_type::pair);
  events.connect("inproc://hostile");
  zmq::message_t event;
  serve_until([&] {
    hostile.send(zmq::buffer(std::string(kMiB, 'x')), zmq::send_flags::dontwait);
    return events.recv(event, zmq::recv_flags::dontwait).has_value();
  });
  expect_messages(good);
}

TEST_F(PublishSocketTest, ManyStrangeSubscriptionsDisconnectReadersWhoThenComeBack) {
  zmq::socket_t hostile = reader(zmq::socket_type::xsub), good = reader(zmq::socket_type::sub);
  good.set(zmq::sockopt::subscribe, "");
  expect_messages(good);
  const void* const before = socket_.handle();
  std::size_t num_sent = 0;
  serve_until([&] {
    const std::string topic = "\1strange" + std::to_string(num_sent);
    if (hostile.send(zmq::buffer(topic), zmq::send_flags::dontwait)) ++num_sent;
    return socket_.handle() != before;  // never: the socket stores whatever it is sent
  });
  EXPECT_GT(num_sent, PublishSocket::kMaxStrange);
  hostile.close();  // or it comes back and subscribes to all that again
  expect_messages(good);
}

TEST_F(PublishSocketTest, WhatWaitsForReadersIsBounded) {
  zmq::socket_t slow = reader(zmq::socket_type::sub), good = reader(zmq::socket_type::sub);
  slow.set(zmq::sockopt::subscribe, "");
  serve_until([&] { return num_subscribed_ == 1; });
  good.set(zmq::sockopt::subscribe, "");
  serve_until([&] { return num_subscribed_ == 2; });
  std::vector<std::weak_ptr<const std::string>> sent;
  std::uint64_t num_alive = 0, most_alive = 0;
  for (std::uint64_t seq = 0; seq < 400; ++seq) {
    const Payload payload = bytes(kMiB);
    socket_.send(seq, payload);
    sent.push_back(payload);
    num_alive = static_cast<std::uint64_t>(std::ranges::count_if(sent, [](const auto& it) { return !it.expired(); }));
    most_alive = std::max(most_alive, num_alive);
    for (zmq::message_t frame; good.recv(frame, zmq::recv_flags::dontwait);) continue;
  }
  EXPECT_GT(most_alive, 32u);  // fewer: nothing was queued, and the test shows nothing
  // Twice the bound: queues of closed connections are freed a little later.
  EXPECT_LT(most_alive * kMiB, 2 * PublishSocket::kMaxQueuedBytes);
  expect_messages(good);
}

TEST_F(PublishSocketTest, QueuedPayloadsMayOutliveTheSocket) {
  zmq::socket_t slow = reader(zmq::socket_type::sub);
  slow.set(zmq::sockopt::subscribe, "");
  serve_until([&] { return num_subscribed_ == 1; });
  for (std::uint64_t seq = 0; seq < 32; ++seq) socket_.send(seq, bytes(kMiB));
  // The end of this test destroys the socket before its context; a sanitizer sees a callback that comes too late.
}

}  // namespace
}  // namespace mortise
