// Covers: runtime/delivery/outbox
#include "delivery/delivery_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

#include "delivery/outbox.hpp"
#include "deltas.hpp"

namespace mortise {
namespace {

using test::end_delta;
using test::token_delta;

void nobody_aborts(RequestId id) {
  ADD_FAILURE() << "request " << id << " was aborted";
}

TEST(DeliveryPool, EachRequestIsDeliveredInOrderByOneThreadAtATime) {
  constexpr int kRequests = 40, kSteps = 500;
  struct Reader {
    std::vector<std::int32_t> ids;
    std::atomic<bool> busy = false;
    bool overlapped = false, ended = false;
  };
  std::vector<Reader> readers(kRequests);
  {
    DeliveryPool pool(4, nobody_aborts);
    Outbox outbox(pool);
    std::vector<std::shared_ptr<Channel>> channels;
    for (Reader& reader : readers) {
      channels.push_back(std::make_shared<SinkChannel>(1, nullptr, [&reader](const Delta& delta) {
        reader.overlapped |= reader.busy.exchange(true);
        for (const TokenInfo& token : delta.tokens) reader.ids.push_back(token.id);
        reader.ended |= delta.finish != FinishReason::kNone;
        reader.busy = false;
      }));
    }
    for (int step = 0; step < kSteps; ++step) {
      for (const auto& channel : channels) outbox.add(channel, token_delta(0, step));
      outbox.send();
    }
    for (const auto& channel : channels) outbox.add(channel, end_delta(0));
    outbox.send();
  }  // the pool ends when everything is delivered
  for (const Reader& reader : readers) {
    EXPECT_FALSE(reader.overlapped);
    EXPECT_TRUE(reader.ended);
    ASSERT_EQ(reader.ids.size(), std::size_t{kSteps});
    for (int step = 0; step < kSteps; ++step) EXPECT_EQ(reader.ids[static_cast<std::size_t>(step)], step);
  }
}

TEST(DeliveryPool, ASinkThatThrowsIsAbortedOnceAndNotCalledAgainAndTheOthersGoOn) {
  std::vector<RequestId> aborted;  // one thread delivers
  int num_calls = 0, num_tapped = 0, num_other = 0;
  {
    DeliveryPool pool(1, [&](RequestId id) { aborted.push_back(id); });
    Outbox outbox(pool);
    const auto bad = std::make_shared<SinkChannel>(
        1, [&](Delta& delta) { num_tapped += static_cast<int>(delta.tokens.size()); },
        [&](const Delta&) {
          ++num_calls;
          throw 42;  // not even a std::exception
        });
    const auto good = std::make_shared<SinkChannel>(
        1, nullptr, [&](const Delta& delta) { num_other += static_cast<int>(delta.tokens.size()); });
    for (int step = 0; step < 100; ++step) {
      outbox.add(bad, token_delta(0, step));
      outbox.add(good, token_delta(0, step));
      outbox.send();
    }
    outbox.add(bad, end_delta(0, FinishReason::kAborted));
    outbox.add(good, end_delta(0));
    outbox.send();
  }
  EXPECT_EQ(aborted, std::vector<RequestId>{7});
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(num_tapped, 100);  // less: a log would miss what came after the failure
  EXPECT_EQ(num_other, 100);
}

TEST(DeliveryPool, ASinkThatBlocksHoldsUpNeitherTheEngineNorASecondThread) {
  std::promise<void> release, heard;
  std::size_t num_blocked_deltas = 0, num_blocked_tokens = 0;
  {
    DeliveryPool pool(2, nobody_aborts);
    Outbox outbox(pool);
    const auto blocked = std::make_shared<SinkChannel>(1, nullptr, [&](const Delta& delta) {
      if (num_blocked_deltas++ == 0) release.get_future().wait();
      num_blocked_tokens += delta.tokens.size();
    });
    const auto other = std::make_shared<SinkChannel>(1, nullptr, [&](const Delta& delta) {
      if (delta.finish != FinishReason::kNone) heard.set_value();
    });
    constexpr int kSteps = 10'000;
    for (int step = 0; step < kSteps; ++step) {
      outbox.add(blocked, token_delta(0, step));
      outbox.send();
    }
    outbox.add(other, end_delta(0));
    outbox.send();
    heard.get_future().wait();
    release.set_value();
  }
  EXPECT_EQ(num_blocked_tokens, 10'000u);
  EXPECT_LE(num_blocked_deltas, 10'000u);
}

TEST(DeliveryPool, WhatASinkHoldsIsFreedBehindTheLastFinish) {
  const auto held = std::make_shared<int>(1);
  std::promise<void> ended;
  DeliveryPool pool(1, nobody_aborts);
  Outbox outbox(pool);
  const std::shared_ptr<Channel> channel =
      std::make_shared<SinkChannel>(2, nullptr, [&ended, held, num_ended = 0](const Delta& delta) mutable {
        if (delta.finish != FinishReason::kNone && ++num_ended == 2) ended.set_value();
      });
  for (const int choice : {0, 1}) outbox.add(channel, end_delta(choice));
  outbox.send();
  ended.get_future().wait();
  pool.stop();
  EXPECT_EQ(held.use_count(), 1);  // 2: the engine's thread would free an answer when it lets go of the channel
}

TEST(DeliveryPool, ASinkMayBeEmpty) {
  DeliveryPool pool(1, nobody_aborts);
  Outbox outbox(pool);
  outbox.add(std::make_shared<SinkChannel>(1, nullptr, nullptr), end_delta(0));
  outbox.send();
  pool.stop();
}

}  // namespace
}  // namespace mortise
