#include "kv_events/replay_socket.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace mortise {
namespace {

using namespace std::chrono_literals;

// More than the buffers of a connection and of a reader with a queue of one message hold.
const std::vector<ReplayBuffer::Message> kLarge = [] {
  const auto payload = std::make_shared<const std::string>(std::size_t{16} << 20, 'x');
  std::vector<ReplayBuffer::Message> messages;
  for (std::uint64_t seq = 0; seq < 8; ++seq) messages.push_back({seq, payload});
  return messages;
}();

class ReplaySocketTest : public testing::Test {
 protected:
  zmq::socket_t reader() {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvhwm, 1);
    socket.set(zmq::sockopt::rcvtimeo, 20'000);
    socket.connect(socket_.endpoint());
    return socket;
  }

  void ask(zmq::socket_t& reader, std::uint64_t from = 0) {
    reader.send(zmq::str_buffer(""), zmq::send_flags::sndmore);
    reader.send(zmq::buffer(seq_bytes(from)), zmq::send_flags::none);
  }

  // Answers what has come, until nothing comes for a while. Returns the number of answers.
  std::size_t answer_all(const std::vector<ReplayBuffer::Message>& messages) {
    std::size_t count = 0;
    std::vector<zmq::pollitem_t> items = {{socket_.handle(), 0, ZMQ_POLLIN, 0}};
    while (zmq::poll(items, 300ms) > 0) {
      const auto request = socket_.receive();
      if (!request) continue;
      socket_.answer(*request, messages);
      ++count;
    }
    return count;
  }

  // The number of messages before the end.
  std::size_t read_answer(zmq::socket_t& reader) {
    for (std::size_t count = 0;; ++count) {
      std::vector<std::string> frames;
      do {
        zmq::message_t frame;
        if (!reader.recv(frame)) throw std::runtime_error("no message came");
        frames.push_back(frame.to_string());
      } while (reader.get(zmq::sockopt::rcvmore));
      if (frames.size() != 4) throw std::runtime_error("not a message of four frames");
      if (read_seq(frames[2]) == ~std::uint64_t{0}) return count;
    }
  }

  zmq::context_t context_;
  ReplaySocket socket_{context_, "tcp://127.0.0.1:*", "kv@here", /*max_answers=*/2};
};

TEST_F(ReplaySocketTest, AReaderThatTakesNothingGetsOneAnswer) {
  zmq::socket_t hostile = reader(), good = reader();
  for (int i = 0; i < 500; ++i) ask(hostile);
  EXPECT_EQ(answer_all(kLarge), 1u);  // 500: each answer waits in memory
  ask(good);
  EXPECT_EQ(answer_all(kLarge), 1u);
  EXPECT_EQ(read_answer(good), kLarge.size());
}

TEST_F(ReplaySocketTest, WhoHasReadTheEndMayAskAgainAtOnce) {
  zmq::socket_t good = reader();
  const std::vector<ReplayBuffer::Message> small(3, {1, std::make_shared<const std::string>("x")});
  for (int i = 0; i < 50; ++i) {
    ask(good);
    std::vector<zmq::pollitem_t> items = {{socket_.handle(), 0, ZMQ_POLLIN, 0}};
    zmq::poll(items, 20s);
    const auto request = socket_.receive();
    ASSERT_TRUE(request.has_value()) << i;  // else: the answer before counts as unread
    socket_.answer(*request, small);
    ASSERT_EQ(read_answer(good), 3u);
  }
}

TEST_F(ReplaySocketTest, OnlySoManyReadersAreAnsweredAtATime) {
  std::vector<zmq::socket_t> hostile;
  for (std::size_t i = 0; i < 4; ++i) {
    hostile.push_back(reader());
    ask(hostile.back());
  }
  EXPECT_EQ(answer_all(kLarge), 2u);
  hostile.clear();  // their answers are dropped
  zmq::socket_t good = reader();
  std::size_t num_answers = 0;  // an answer's memory is freed a little after its reader has gone
  for (int i = 0; i < 50 && num_answers == 0; ++i) {
    ask(good);
    num_answers = answer_all(kLarge);
  }
  EXPECT_EQ(read_answer(good), kLarge.size());
}

TEST_F(ReplaySocketTest, TheAnswerToNothingMissedIsTheEnd) {
  zmq::socket_t good = reader();
  ask(good, 9);
  EXPECT_EQ(answer_all({}), 1u);
  EXPECT_EQ(read_answer(good), 0u);
}

}  // namespace
}  // namespace mortise
