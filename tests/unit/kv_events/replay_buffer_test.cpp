#include "kv_events/replay_buffer.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

Payload payload_of(std::size_t count) {
  return std::make_shared<const std::string>(count, 'x');
}

TEST(ReplayBuffer, KeepsTheLatestWithinBothLimits) {
  ReplayBuffer buffer(/*max_messages=*/3, /*max_bytes=*/10);
  for (std::uint64_t seq = 0; seq < 5; ++seq) buffer.add(seq, payload_of(1));
  EXPECT_EQ(buffer.messages().size(), 3u);
  EXPECT_TRUE(buffer.reaches_back_to(2));
  EXPECT_FALSE(buffer.reaches_back_to(1));
  EXPECT_TRUE(buffer.reaches_back_to(9));  // nothing is missing of what has not come
  buffer.add(5, payload_of(9));
  EXPECT_EQ(buffer.messages().front().seq, 4u);
}

TEST(ReplayBuffer, TheLatestStaysWhateverItsSize) {
  ReplayBuffer buffer(3, 10);
  buffer.add(0, payload_of(1));
  buffer.add(1, payload_of(100));
  ASSERT_EQ(buffer.messages().size(), 1u);
  EXPECT_EQ(buffer.messages().front().seq, 1u);
}

}  // namespace
}  // namespace mortise
