#include "server/takeover_message.hpp"

#include <gmock/gmock.h>
#include <sys/eventfd.h>

#include <array>
#include <cstring>

#include "error.hpp"
#include "sockets.hpp"

namespace mortise::test {
namespace {

using State = TakeoverMessage::State;
using testing::HasSubstr;

std::string receive_failure(int socket, std::size_t max_descriptors = kMaxTakeoverDescriptors) {
  return test::failure_of([&] { receive(socket, max_descriptors); });
}

// sendmsg() as a hostile peer calls it.
void send_with_descriptors(int socket, const std::string& bytes, std::size_t count) {
  std::string text = bytes;
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(100 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(count * sizeof(int));
  for (std::size_t i = 0; i < count; ++i) std::memcpy(CMSG_DATA(head) + i * sizeof(int), &socket, sizeof(int));
  ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(text.size()));
}

TEST(TakeoverMessage, ArrivesWithItsDescriptors) {
  const auto [one, other] = connected_sockets();
  const FileDescriptor event(::eventfd(7, EFD_CLOEXEC));
  const int descriptors[] = {event.get(), one.get()};
  ASSERT_TRUE(send_takeover_message(one.get(), {{"step", "offer"}, {"pid", 12}, {"version", "1\n2"}}, descriptors));
  TakeoverMessage got = receive(other.get());
  ASSERT_EQ(got.state, State::kHere);
  EXPECT_EQ(got.step(), "offer");
  EXPECT_EQ(got.number("pid"), 12);
  EXPECT_EQ(got.text("version"), "1?2");  // a line end: it could write lines into a log
  ASSERT_EQ(got.descriptors.size(), 2u);
  eventfd_t value = 0;
  EXPECT_EQ(::eventfd_read(got.descriptors[0].get(), &value), 0);
  EXPECT_EQ(value, 7u);
}

TEST(TakeoverMessage, WhatIsNoneIsAnError) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("{\"step\": "), std::string("[1]"), std::string("7"),
        std::string("\0\xff\x1b[2J", 6), std::string(2000, '[')}) {
    const auto [one, other] = connected_sockets();
    ASSERT_TRUE(send_bytes(one.get(), bytes));
    const std::string failure = receive_failure(other.get());
    EXPECT_THAT(failure, HasSubstr("which is not a message of a takeover"));
    EXPECT_EQ(failure.find('\x1b'), std::string::npos);
  }
  const auto [first, second] = connected_sockets();
  ASSERT_TRUE(send_bytes(first.get(), "{\"step\": "));
  EXPECT_THAT(receive_failure(second.get()), HasSubstr("which is not a message of a takeover: "));
  const auto [one, other] = connected_sockets();
  ASSERT_TRUE(send_bytes(one.get(), "{\"step\": \"" + std::string(kMaxTakeoverBytes, 'x') + "\"}"));
  EXPECT_THAT(receive_failure(other.get()), HasSubstr("it sent a message of more than 4096 bytes"));
}

TEST(TakeoverMessage, FieldsOfAnotherTypeAreAnError) {
  TakeoverMessage message{State::kHere, {{"step", 3}, {"pid", "x"}, {"version", 1}}, {}};
  EXPECT_EQ(message.step(), "");
  EXPECT_THROW(message.number("pid"), Error);
  EXPECT_THROW(message.number("generation"), Error);
  EXPECT_THROW(message.text("version"), Error);
}

TEST(TakeoverMessage, DescriptorsBeyondThoseThatAreWantedAreClosed) {
  const std::size_t before = num_open_descriptors();
  for (const auto& [sent, wanted] : {std::pair<std::size_t, std::size_t>{1, 0}, {3, 2}, {100, 2}}) {
    for (const char* bytes : {"{}", "nonsense", ""}) {
      const auto [one, other] = connected_sockets();
      send_with_descriptors(one.get(), bytes, sent);
      if (*bytes == '\0') {
        EXPECT_EQ(receive(other.get(), wanted).state, State::kGone);
      } else {
        EXPECT_THAT(receive_failure(other.get(), wanted), HasSubstr("file descriptors with a message"));
      }
    }
  }
  EXPECT_EQ(num_open_descriptors(), before);  // more: a stranger can use them up
}

TEST(TakeoverMessage, TellsSilenceFromAnEnd) {
  auto [one, other] = connected_sockets();
  EXPECT_EQ(receive_takeover_message(other.get(), 0, std::chrono::steady_clock::now()).state, State::kLate);
  const FileDescriptor stop(::eventfd(1, EFD_CLOEXEC));
  const auto never = std::chrono::steady_clock::time_point::max();
  EXPECT_EQ(receive_takeover_message(other.get(), 0, never, stop.get()).state, State::kStopped);
  one.reset();
  EXPECT_EQ(receive_takeover_message(other.get(), 0, never).state, State::kGone);
  EXPECT_FALSE(send_takeover_message(other.get(), {{"step", "serving"}}));  // and no SIGPIPE
}

}  // namespace
}  // namespace mortise::test
