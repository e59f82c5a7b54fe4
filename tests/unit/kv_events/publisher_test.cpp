#include "kv_events/publisher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <zmq.hpp>

#include "error.hpp"
#include "kv/kv_cache.hpp"

namespace mortise {
namespace {

using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

struct Message {
  std::string topic;
  std::uint64_t seq = 0;
  nlohmann::json batch;  // null: the end of a replay
};

class Subscriber {
 public:
  explicit Subscriber(const KvEventPublisher& publisher) {
    for (zmq::socket_t* socket : {&sub_, &dealer_}) {
      socket->set(zmq::sockopt::rcvtimeo, 10'000);
      socket->set(zmq::sockopt::linger, 0);
    }
    sub_.connect(publisher.at().endpoint);
    dealer_.connect(publisher.at().replay);
    // An answer: the publisher's thread has sent its first message, so a subscriber from here on is told everything.
    EXPECT_EQ(replay(0).back().seq, ~std::uint64_t{0});
  }

  void subscribe() { sub_.set(zmq::sockopt::subscribe, ""); }
  Message next() { return read(sub_); }
  // Returns the messages from `seq` on. The last one is the end of the replay.
  std::vector<Message> replay(std::uint64_t seq) {
    std::string bytes(8, '\0');
    for (int i = 7; i >= 0; --i, seq >>= 8) bytes[static_cast<std::size_t>(i)] = static_cast<char>(seq & 0xff);
    dealer_.send(zmq::str_buffer(""), zmq::send_flags::sndmore);
    dealer_.send(zmq::buffer(bytes), zmq::send_flags::none);
    std::vector<Message> messages;
    do messages.push_back(read(dealer_));
    while (!messages.back().batch.is_null());
    return messages;
  }
  void send_nonsense() { dealer_.send(zmq::str_buffer("hello"), zmq::send_flags::none); }

 private:
  static Message read(zmq::socket_t& socket) {
    std::vector<std::string> frames;
    do {
      zmq::message_t frame;
      if (!socket.recv(frame)) throw std::runtime_error("no message came");
      frames.push_back(frame.to_string());
    } while (socket.get(zmq::sockopt::rcvmore));
    if (frames.size() == 4) frames.erase(frames.begin());  // the empty frame of a DEALER
    EXPECT_EQ(frames.size(), 3u);
    EXPECT_EQ(frames[1].size(), 8u);
    Message message{frames[0], 0, frames[2].empty() ? nlohmann::json() : nlohmann::json::from_msgpack(frames[2])};
    for (const char byte : frames[1]) message.seq = message.seq << 8 | static_cast<unsigned char>(byte);
    return message;
  }

  zmq::context_t context_;
  zmq::socket_t sub_{context_, zmq::socket_type::sub};
  zmq::socket_t dealer_{context_, zmq::socket_type::dealer};
};

KvEventOptions anywhere() {
  return {"tcp://127.0.0.1:*", "tcp://127.0.0.1:*", "kv@here"};
}

TEST(KvEventPublisher, PublishesWhatTheCacheStoresAndEvicts) {
  KvEventPublisher publisher(anywhere(), /*num_blocks=*/2, /*block_size=*/2);
  publisher.listen();
  Subscriber reader(publisher);
  KvCache cache(2, 2, true, &publisher.observer());
  const auto first = cache.allocate(2);
  cache.publish(kPrefixRoot, Tokens{1, 2}, (*first)[0]);
  cache.publish((*first)[0], Tokens{3, 4}, (*first)[1]);
  cache.release(*first);
  const auto second = cache.allocate(2);  // evicts both
  cache.publish(kPrefixRoot, Tokens{5, 6}, (*second)[0]);
  std::vector<nlohmann::json> events;
  std::vector<nlohmann::json> tokens;
  std::size_t num_removed = 0;
  for (const Message& message : reader.replay(0)) {
    if (message.batch.is_null()) continue;
    EXPECT_EQ(message.topic, "kv@here");
    EXPECT_TRUE(message.batch[0].is_number() && message.batch[2].is_null());
    for (const nlohmann::json& event : message.batch[1]) {
      for (const nlohmann::json& token : event.value("token_ids", nlohmann::json::array())) tokens.push_back(token);
      if (event["type"] == "BlockRemoved") num_removed += event["block_hashes"].size();
    }
  }
  EXPECT_EQ(tokens, (std::vector<nlohmann::json>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(num_removed, 2u);
}

TEST(KvEventPublisher, ASubscriberIsToldEverythingAndThenEachChange) {
  KvEventPublisher publisher(anywhere(), 8, 2);
  publisher.listen();
  publisher.observer().stored(kPrefixRoot, Tokens{1, 2}, 0);
  Subscriber reader(publisher);
  reader.subscribe();
  const Message first = reader.next();
  EXPECT_EQ(first.topic, "kv@here");
  ASSERT_EQ(first.batch[1].size(), 2u);  // 1: it never hears of what was cached before it came
  EXPECT_EQ(first.batch[1][0]["type"], "AllBlocksCleared");
  EXPECT_EQ(first.batch[1][1]["token_ids"], nlohmann::json({1, 2}));
  publisher.observer().stored(0, Tokens{3, 4}, 1);
  const Message next = reader.next();
  EXPECT_EQ(next.seq, first.seq + 1);
  EXPECT_EQ(next.batch[1][0]["parent_block_hash"], first.batch[1][1]["block_hashes"][0]);
}

TEST(KvEventPublisher, ManyNewSubscribersAreToldTogether) {
  KvEventPublisher publisher(anywhere(), 8, 2);
  publisher.listen();
  Subscriber first(publisher), second(publisher), third(publisher);
  first.subscribe();
  const std::uint64_t seq = first.next().seq;
  second.subscribe();
  third.subscribe();
  EXPECT_EQ(second.next().seq, seq + 1);
  EXPECT_EQ(third.next().seq, seq + 1);  // seq + 2: each subscription costs a message to all
}

TEST(KvEventPublisher, AReaderWhoComesTooLateForReplayIsToldEverything) {
  KvEventOptions options = anywhere();
  options.max_kept = 3;
  KvEventPublisher publisher(options, /*num_blocks=*/2, /*block_size=*/1);
  publisher.listen();
  Subscriber reader(publisher);
  publisher.observer().stored(kPrefixRoot, Tokens{5}, 1);
  std::uint64_t seq = 0;
  for (std::int32_t i = 0; i < 6; ++i) {  // a message each: the replay after it waits for it
    publisher.observer().stored(1, Tokens{i}, 0);
    seq = reader.replay(seq).front().seq + 1;
    publisher.observer().removed(0);
    reader.replay(seq);
  }
  const std::vector<Message> all = reader.replay(0);
  ASSERT_EQ(all.size(), 2u);  // more: messages that begin in the middle
  EXPECT_EQ(all[0].batch[1][0]["type"], "AllBlocksCleared");
  EXPECT_EQ(all[0].batch[1][1]["token_ids"], nlohmann::json::array({5}));
  const std::vector<Message> latest = reader.replay(all[0].seq);
  ASSERT_EQ(latest.size(), 2u);  // the snapshot has the number of the latest message, after which a reader goes on
  EXPECT_EQ(latest[0].batch[1][0]["type"], "BlockRemoved");
}

TEST(KvEventPublisher, NonsenseAtTheReplaySocketIsPassedOver) {
  KvEventPublisher publisher(anywhere(), 8, 2);
  publisher.listen();
  Subscriber reader(publisher);
  reader.send_nonsense();
  EXPECT_EQ(reader.replay(0).front().seq, 0u);
}

std::string failure_of(const KvEventOptions& options) {
  try {
    KvEventPublisher publisher(options, 8, 2);
    publisher.listen();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(KvEventPublisher, AnEndpointThatCannotBeListenedAtIsAnError) {
  EXPECT_THAT(failure_of({"nowhere", "", ""}), HasSubstr("--kv-events nowhere: cannot listen there: "));
  KvEventPublisher taken(anywhere(), 8, 2);
  taken.listen();
  EXPECT_THAT(failure_of({"tcp://127.0.0.1:*", taken.at().endpoint, ""}),
              HasSubstr("give an address of this machine and a port that is free, like tcp://127.0.0.1:5557"));
}

TEST(KvEventPublisher, PortsGoFromOneToTheNextWithWhatTheNextHadCachedBefore) {
  auto serving = std::make_unique<KvEventPublisher>(anywhere(), 8, 2);
  serving->listen();
  for (int i = 0; i < 4; ++i) {  // a port that is not free yet would show in one of them
    auto next = std::make_unique<KvEventPublisher>(serving->at(), 8, 2);
    next->observer().stored(kPrefixRoot, Tokens{1, 2}, 0);
    try {
      next->listen();
      FAIL() << "two processes listen at one port";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    }
    serving->stop();
    next->listen();
    serving->observer().stored(kPrefixRoot, Tokens{3, 4}, 1);  // its engine drains, and nobody hears of it
    Subscriber reader(*next);
    std::vector<Message> told;
    do told = reader.replay(0);
    while (told.size() < 3);  // for ever: what it had cached before it listened is lost
    EXPECT_EQ(told[0].batch[1][0]["type"], "AllBlocksCleared");
    EXPECT_EQ(told[1].batch[1][0]["token_ids"], nlohmann::json({1, 2}));
    serving = std::move(next);
  }
}

}  // namespace
}  // namespace mortise
