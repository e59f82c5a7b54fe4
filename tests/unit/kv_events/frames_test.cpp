#include "kv_events/frames.hpp"

#include <gtest/gtest.h>

#include "error.hpp"

namespace mortise {
namespace {

TEST(SeqBytes, AreBigEndianAndComeBack) {
  EXPECT_EQ(seq_bytes(0), std::string(8, '\0'));
  EXPECT_EQ(seq_bytes(0x0102030405060708), "\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(seq_bytes(~std::uint64_t{0}), std::string(8, '\xff'));
  for (const std::uint64_t seq : {std::uint64_t{0}, std::uint64_t{255}, std::uint64_t{256}, ~std::uint64_t{0}}) {
    EXPECT_EQ(read_seq(seq_bytes(seq)), seq);
  }
}

TEST(SharedFrame, HoldsItsPayloadAndCopiesNothing) {
  auto payload = std::make_shared<const std::string>(100'000, 'x');
  const std::weak_ptr<const std::string> watched = payload;
  {
    const zmq::message_t frame = shared_frame(payload);
    EXPECT_EQ(frame.data(), payload->data());
    EXPECT_EQ(frame.size(), payload->size());
    payload.reset();
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());  // false: each event that was sent stays in memory
}

TEST(CopiedFrame, OutlivesWhatItWasMadeOf) {
  std::string bytes = "abc";
  const zmq::message_t frame = copied_frame(bytes);
  bytes = "xyz";
  EXPECT_EQ(frame.to_string_view(), "abc");
  EXPECT_EQ(copied_frame("").size(), 0u);
}

TEST(ListenAt, TellsThePortThatWasTakenAndWhyOneCannotBe) {
  zmq::context_t context;
  zmq::socket_t first(context, zmq::socket_type::pub), second(context, zmq::socket_type::pub);
  const std::string endpoint = listen_at(first, "tcp://127.0.0.1:*", "--kv-events");
  EXPECT_TRUE(endpoint.starts_with("tcp://127.0.0.1:")) << endpoint;
  try {
    listen_at(second, endpoint, "--kv-events");
    FAIL() << "two sockets listen at " << endpoint;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(std::string(error.what()).substr(0, 13 + endpoint.size()), "--kv-events " + endpoint + ":");
  }
  try {
    listen_at(second, "nonsense", "--kv-events");
    FAIL() << "a socket listens at nonsense";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace mortise
