// Both sides of a takeover: with each other, and each with peers that are broken or hostile.
// Covers: runtime/server/{listen,takeover_offer}
#include "server/takeover.hpp"

#include <gmock/gmock.h>

#include <future>

#include "server/listen.hpp"
#include "server/takeover_offer.hpp"
#include "sockets.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json kRequest = {{"takeover", {kTakeoverVersion}}, {"step", "request"}, {"pid", 1}, {"version", "9.9"}};

class TakeoverTest : public testing::Test {
 protected:
  std::unique_ptr<TakeoverOffer> offer(TakeoverOffer::Times times = {}) {
    return offer_at(TakeoverSocket(path_), 1, times);
  }
  std::unique_ptr<TakeoverOffer> offer_at(TakeoverSocket socket, int generation, TakeoverOffer::Times times = {}) {
    return std::make_unique<TakeoverOffer>(
        std::move(socket), generation,
        TakeoverOffer::Server{[this] { return FileDescriptor(::dup(listener_.get())); }, [this] { ++num_hand_overs_; },
                              [this](const auto& event) {
                                EXPECT_EQ(event["event"], "handed over");
                                ++num_events_;
                              }},
        times);
  }
  FileDescriptor connect() {
    auto peer = connect_to_takeover_socket(path_);
    EXPECT_TRUE(peer);
    return std::move(*peer);
  }
  // The whole of a takeover, as a process does it.
  void take_over() {
    std::optional<Takeover> takeover = Takeover::ask(path_);
    ASSERT_TRUE(takeover);
    check_listens_at(takeover->take_listener().get(), "127.0.0.1", 0);
    takeover->serving("here");
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() / "takeover";
  FileDescriptor listener_ = listen_at("127.0.0.1", 0);
  std::atomic<int> num_hand_overs_ = 0, num_events_ = 0;
};

TEST_F(TakeoverTest, GivesTheListeningSocketAndThenLetsGo) {
  auto old = offer();
  std::optional<Takeover> takeover = Takeover::ask(path_);
  ASSERT_TRUE(takeover);
  const FileDescriptor taken = takeover->take_listener();
  EXPECT_EQ(listening_address(taken.get()), listening_address(listener_.get()));
  EXPECT_EQ(takeover->generation(), 2);
  EXPECT_EQ(num_hand_overs_, 0);  // 1: nobody would accept until the new process does
  const nlohmann::ordered_json event = takeover->serving("here");
  EXPECT_EQ(num_hand_overs_, 1);
  EXPECT_EQ(event["event"], "takeover");
  EXPECT_EQ(event["from_pid"], ::getpid());
  EXPECT_EQ(event["generation"], 2);
  EXPECT_EQ(event["address"], "here");
  old.reset();
  EXPECT_EQ(num_events_, 1);
}

TEST_F(TakeoverTest, GoesOnFromProcessToProcess) {
  auto serving = offer();
  for (int generation = 2; generation < 5; ++generation) {
    std::optional<Takeover> takeover = Takeover::ask(path_);
    ASSERT_TRUE(takeover);
    EXPECT_EQ(takeover->generation(), generation);
    takeover->serving("here");
    serving.reset();
    serving = offer_at(takeover->take_socket(), generation);
  }
  EXPECT_EQ(num_hand_overs_, 3);
}

TEST_F(TakeoverTest, ASecondOneWaitsForTheFirstAndTakesOverFromIt) {
  auto old = offer();
  std::optional<Takeover> first = Takeover::ask(path_);
  ASSERT_TRUE(first);
  auto second = std::async(std::launch::async, [&] { return Takeover::ask(path_); });
  first->serving("here");
  old.reset();
  const auto next = offer_at(first->take_socket(), first->generation());
  std::optional<Takeover> taken = second.get();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->generation(), 3);
  taken->serving("here");
  EXPECT_EQ(num_hand_overs_, 2);
}

TEST_F(TakeoverTest, FromNobodyIsNone) {
  EXPECT_FALSE(Takeover::ask(path_));
}

TEST_F(TakeoverTest, APeerThatGoesAtAnyPointChangesNothing) {
  const auto old = offer();
  connect();
  {
    const FileDescriptor peer = connect();
    ASSERT_TRUE(send_takeover_message(peer.get(), kRequest));
  }
  {
    const FileDescriptor peer = connect();
    ASSERT_TRUE(send_takeover_message(peer.get(), kRequest));
    EXPECT_EQ(receive(peer.get()).step(), "offer");
  }
  {
    const FileDescriptor peer = connect();
    ASSERT_TRUE(send_takeover_message(peer.get(), kRequest));
    ASSERT_TRUE(send_takeover_message(peer.get(), {{"step", "refusal"}, {"reason", "changed my mind"}}));
    EXPECT_EQ(receive(peer.get()).step(), "offer");
    EXPECT_THAT(receive(peer.get()).text("reason"), HasSubstr("gave up: changed my mind"));
  }
  EXPECT_EQ(num_hand_overs_, 0);
  take_over();
  EXPECT_EQ(num_hand_overs_, 1);
}

TEST_F(TakeoverTest, APeerThatSaysSomethingElseIsRefused) {
  const std::size_t before = num_open_descriptors();
  auto old = offer();
  json later = kRequest, text = kRequest, unnamed = kRequest;
  later["takeover"] = {2, 3};
  text["takeover"] = "1";
  unnamed.erase("version");
  const std::pair<std::string, const char*> wrong[] = {
      {"GET / HTTP/1.1\r\n\r\n", "not a message of a takeover"},
      {"{}", "a takeover does not begin with ''"},
      {R"({"step": "serving"})", "a takeover does not begin with 'serving'"},
      {later.dump(), "this process uses version 1 of takeovers"},
      {text.dump(), "this process uses version 1 of takeovers"},
      {unnamed.dump(), "has no text 'version'"},
      {std::string(100'000, 'x'), "more than 4096 bytes"}};
  for (const auto& [bytes, reason] : wrong) {
    const FileDescriptor peer = connect();
    ASSERT_TRUE(send_bytes(peer.get(), bytes));
    const TakeoverMessage refusal = receive(peer.get(), 0);
    EXPECT_EQ(refusal.step(), "refusal");
    EXPECT_THAT(refusal.text("reason"), HasSubstr(reason));
  }
  {
    const FileDescriptor peer = connect();
    const int unwanted[] = {listener_.get()};
    ASSERT_TRUE(send_takeover_message(peer.get(), kRequest, unwanted));
    EXPECT_THAT(receive(peer.get(), 0).text("reason"), HasSubstr("file descriptors"));
  }
  {
    const FileDescriptor peer = connect();
    ASSERT_TRUE(send_takeover_message(peer.get(), kRequest));
    ASSERT_TRUE(send_takeover_message(peer.get(), kRequest));
    EXPECT_EQ(receive(peer.get()).step(), "offer");
    EXPECT_THAT(receive(peer.get()).text("reason"), HasSubstr("sent 'request' instead of saying that it serves"));
  }
  EXPECT_EQ(num_hand_overs_, 0);
  take_over();
  EXPECT_EQ(num_hand_overs_, 1);
  old.reset();
  EXPECT_EQ(num_open_descriptors(), before);  // more: what strangers send stays open
}

TEST_F(TakeoverTest, ALaterVersionThatSpeaksThisOneTooIsServed) {
  const auto old = offer();
  json request = kRequest;
  request["takeover"] = {1, 2};
  request["new field"] = {{"of", "it"}};
  const FileDescriptor peer = connect();
  ASSERT_TRUE(send_takeover_message(peer.get(), request));
  EXPECT_EQ(receive(peer.get()).number("takeover"), 1);
}

TEST_F(TakeoverTest, APeerThatIsSilentIsRefusedInTime) {
  const auto old = offer({.request = 1ms, .serving = 1ms});
  const FileDescriptor silent = connect();
  EXPECT_THAT(receive(silent.get()).text("reason"), HasSubstr("connected and asked for nothing"));
}

TEST_F(TakeoverTest, APeerThatDoesNotServeInTimeIsRefusedAndEnds) {
  const auto old = offer({.request = 60s, .serving = 1ms});
  const FileDescriptor peer = connect();
  ASSERT_TRUE(send_takeover_message(peer.get(), kRequest));
  EXPECT_EQ(receive(peer.get()).step(), "offer");
  EXPECT_THAT(receive(peer.get()).text("reason"), HasSubstr("did not serve in time"));
  EXPECT_EQ(num_hand_overs_, 0);
}

TEST_F(TakeoverTest, AServerThatEndsLeavesTheRestToWhoHasTheSocket) {
  auto old = offer();
  std::optional<Takeover> takeover = Takeover::ask(path_);
  ASSERT_TRUE(takeover);
  old.reset();
  takeover->serving("here");  // an error: nobody serves any more
  const auto next = offer_at(takeover->take_socket(), 2);
  EXPECT_TRUE(Takeover::ask(path_));
}

TEST_F(TakeoverTest, AServerThatDoesNotListenAnyMoreSaysSo) {
  listener_.reset();
  const auto old = offer();
  EXPECT_THAT(failure_of([&] { Takeover::ask(path_); }), HasSubstr("about to end and no longer listens"));
}

// The other way round: what a new process meets at the path.
class TakeoverFromTest : public testing::Test {
 protected:
  // Ask while `answer` plays the process that serves.
  template <typename Answer>
  std::optional<Takeover> ask(Answer answer, Takeover::Times times = {.offer = 60s, .released = 60s}) {
    auto server = std::async(std::launch::async, [&] {
      EXPECT_EQ(wait_until_readable(socket_.fd(), std::chrono::steady_clock::now() + 60s, -1), Wait::kReadable);
      peer_ = FileDescriptor(::accept(socket_.fd(), nullptr, nullptr));
      EXPECT_EQ(receive(peer_.get()).step(), "request");
      answer(peer_.get());
    });
    return Takeover::ask(path_, times);
  }
  template <typename Answer>
  std::string failure(Answer answer, Takeover::Times times = {.offer = 60s, .released = 60s}) {
    return failure_of([&] { ask(answer, times); });
  }
  static json offer() {
    return {{"takeover", 1}, {"step", "offer"}, {"pid", 1}, {"version", "9.9"}, {"generation", 4}};
  }
  std::optional<Takeover> ask_well() {
    return ask([&](int peer) {
      const int descriptors[] = {listener_.get(), socket_.fd()};
      send_takeover_message(peer, offer(), descriptors);
    });
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() / "takeover";
  TakeoverSocket socket_{path_};
  FileDescriptor peer_;
  FileDescriptor listener_ = listen_at("127.0.0.1", 0);
};

TEST_F(TakeoverFromTest, WrongAnswersAreErrors) {
  const std::size_t before = num_open_descriptors();
  EXPECT_THAT(failure([](int peer) { send_bytes(peer, "HTTP/1.1 400 Bad Request\r\n\r\n"); }),
              HasSubstr("nothing was taken over from the process there: it sent 'HTTP/1.1 400 Bad Request"));
  EXPECT_THAT(failure([](int peer) { send_takeover_refusal(peer, "I am busy\x1b[2J"); }),
              HasSubstr("it refuses: I am busy?[2J"));
  EXPECT_THAT(failure([&](int) { peer_.reset(); }), HasSubstr("ended the conversation without an answer"));
  EXPECT_THAT(failure([](int peer) { send_bytes(peer, "{}"); }), HasSubstr("it answers '' instead of offering"));
  EXPECT_THAT(failure([](int) {}, {.offer = 1ms, .released = 1ms}), HasSubstr("it has not answered"));
  json later = offer();
  later["takeover"] = 2;
  EXPECT_THAT(failure([&](int peer) { send_takeover_message(peer, later); }),
              HasSubstr("it uses version 2 of takeovers, but this program"));
  peer_.reset();
  EXPECT_EQ(num_open_descriptors(), before);
}

TEST_F(TakeoverFromTest, AWrongNumberOfDescriptorsIsAnError) {
  const std::size_t before = num_open_descriptors();
  const int one[] = {listener_.get()};
  EXPECT_THAT(failure([](int peer) { send_takeover_message(peer, offer()); }),
              HasSubstr("it sends 0 file descriptors"));
  EXPECT_THAT(failure([&](int peer) { send_takeover_message(peer, offer(), one); }),
              HasSubstr("it sends 1 file descriptors, but a server sends 2"));
  peer_.reset();
  EXPECT_EQ(num_open_descriptors(), before);
}

TEST_F(TakeoverFromTest, DescriptorsThatAreSomethingElseAreErrors) {
  const auto [one, other] = connected_sockets();
  const int in_the_wrong_order[] = {socket_.fd(), listener_.get()};
  EXPECT_THAT(failure([&](int peer) { send_takeover_message(peer, offer(), in_the_wrong_order); }),
              HasSubstr("the socket for takeovers that was handed over does not listen"));
  const int descriptors[] = {one.get(), socket_.fd()};
  std::optional<Takeover> takeover = ask([&](int peer) { send_takeover_message(peer, offer(), descriptors); });
  ASSERT_TRUE(takeover);
  const FileDescriptor taken = takeover->take_listener();
  EXPECT_THAT(failure_of([&] { check_listens_at(taken.get(), "127.0.0.1", 0); }),
              HasSubstr("not a listening TCP socket"));
}

TEST_F(TakeoverFromTest, AnotherAddressThanTheOptionsIsAnError) {
  EXPECT_NO_THROW(check_listens_at(listener_.get(), "127.0.0.1", 0));
  EXPECT_THAT(failure_of([&] { check_listens_at(listener_.get(), "127.0.0.1", 1); }),
              HasSubstr("but --host and --port say 127.0.0.1:1; give its address"));
  EXPECT_THAT(failure_of([&] { check_listens_at(listener_.get(), "0.0.0.0", 0); }), HasSubstr("say 0.0.0.0:"));
}

TEST_F(TakeoverFromTest, WhateverBecomesOfTheOldProcessTheNewOneServes) {
  for (const char* answer : {"", "{}", "nonsense", "{\"step\": \"released\"}"}) {
    std::optional<Takeover> takeover = ask_well();
    if (*answer == '\0') peer_.reset();
    if (peer_) send_bytes(peer_.get(), answer);
    EXPECT_NO_THROW(takeover->serving("here"));
  }
}

TEST_F(TakeoverFromTest, AnOldProcessThatServesOnEndsTheNewOne) {
  std::optional<Takeover> takeover = ask_well();
  send_takeover_refusal(peer_.get(), "too late");
  EXPECT_THAT(failure_of([&] { takeover->serving("here"); }), HasSubstr("process 1 continues to serve: too late"));
}

}  // namespace
}  // namespace mortise::test
