// Covers: runtime/delivery/{delta,mailbox}
#include "delivery/channel.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "delivery/mailbox.hpp"
#include "deltas.hpp"

namespace mortise {
namespace {

using test::end_delta;
using test::token_delta;

std::vector<std::int32_t> ids_of(const Delta& delta) {
  std::vector<std::int32_t> ids;
  for (const TokenInfo& token : delta.tokens) ids.push_back(token.id);
  return ids;
}

TEST(Channel, DeltasOfAReaderThatStopsBecomeOneForEachChoice) {
  PulledChannel channel(2, [] {});
  constexpr int kTokens = 10'000;
  for (int i = 0; i < kTokens; ++i) {
    for (const int choice : {0, 1}) {
      const bool wakes = channel.append(token_delta(choice, i, i));
      EXPECT_EQ(wakes,
                i == 0 && choice == 0);  // only the first: a reader that was woken already need not be woken again
    }
  }
  std::vector<Delta> deltas;
  channel.take(deltas);
  ASSERT_EQ(deltas.size(), 2u);  // more: its memory grows with the number of steps
  for (const Delta& delta : deltas) {
    ASSERT_EQ(delta.tokens.size(), std::size_t{kTokens});
    for (int i = 0; i < kTokens; ++i) EXPECT_EQ(delta.tokens[static_cast<std::size_t>(i)].id, i);
    EXPECT_EQ(delta.text.size(), std::size_t{kTokens});
    // The finished answer, and what a growing array keeps as room.
    EXPECT_LE(delta.tokens.capacity(), std::size_t{2 * kTokens});
    EXPECT_LE(delta.earlier.capacity(), std::size_t{2 * kTokens});
  }
  channel.take(deltas);
  EXPECT_TRUE(deltas.empty());
}

TEST(Channel, AChannelOfOneChoiceMergesToo) {
  PulledChannel channel(1, [] {});
  std::vector<Delta> deltas;
  for (int round = 0; round < 3; ++round) {  // the second round finds memory that take() has left
    channel.prefetch();
    channel.prefetch_room();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(channel.append(token_delta(0, i)), i == 0 && round == 0);
    channel.take(deltas);
    ASSERT_EQ(deltas.size(), 1u);
    EXPECT_EQ(ids_of(deltas[0]), (std::vector<std::int32_t>{0, 1, 2}));
    EXPECT_EQ(deltas[0].text, "abc");
  }
}

TEST(Channel, ADeltaThatWasMovedAndClearedIsANewOne) {
  Delta used = end_delta(2, FinishReason::kError);
  used.append(token_delta(2, 1));
  used.prompt.push_back({.id = 1});
  used.error = "an error";
  used.code = ErrorCode::kUnavailable;
  used.stop_token = 3;
  used.started = used.first_token = used.sent = std::chrono::steady_clock::now();
  used.earlier.push_back({used.sent, 1});
  const Delta moved = std::move(used);
  used.clear();
  const Delta fresh;
  EXPECT_EQ(moved.error, "an error");
  EXPECT_EQ(used.request, fresh.request);
  EXPECT_EQ(used.choice, fresh.choice);
  EXPECT_TRUE(used.prompt.empty() && used.tokens.empty() && used.text.empty() && used.earlier.empty());
  EXPECT_EQ(used.finish, fresh.finish);
  EXPECT_TRUE(used.error.empty());
  EXPECT_EQ(used.code, fresh.code);
  EXPECT_FALSE(used.stop_token || used.started || used.first_token);
  EXPECT_EQ(used.seed, fresh.seed);
  EXPECT_EQ(used.usage.completion_tokens, 0);
  EXPECT_EQ(used.sent, fresh.sent);
}

TEST(Channel, TheBufferOfTokensThatAReaderHasFinishedWithGoesBackToTheEngine) {
  PulledChannel channel(1, [] {});
  std::vector<Delta> deltas;
  const auto send = [&](int id) {  // returns what is left in the delta
    Delta delta = token_delta(0, id);
    static_cast<void>(channel.append(std::move(delta)));
    return std::move(delta.tokens);
  };
  EXPECT_EQ(send(1).capacity(), 0u);
  channel.take(deltas);
  const TokenInfo* const buffer = deltas[0].tokens.data();
  EXPECT_EQ(send(2).capacity(), 0u);  // more: the reader may still read it
  channel.take(deltas);
  const std::vector<TokenInfo> given_back = send(3);
  EXPECT_TRUE(given_back.empty());
  EXPECT_GT(given_back.capacity(), 0u);
  EXPECT_EQ(given_back.data(), buffer);
  channel.take(deltas);
  EXPECT_EQ(ids_of(deltas[0]), std::vector<std::int32_t>{3});
  // A reader that was slow gives its large buffer to nobody.
  for (int id = 0; id < 100; ++id) send(id);
  channel.take(deltas);
  channel.take(deltas);
  EXPECT_LE(send(1).capacity(), 16u);
}

TEST(Channel, AMergedDeltaKnowsWhenEachOfItsTokensWasSent) {
  PulledChannel channel(1, [] {});
  for (const int step : {3, 5, 9}) EXPECT_EQ(channel.append(token_delta(0, step, step)), step == 3);
  std::vector<Delta> deltas;
  channel.take(deltas);
  ASSERT_EQ(deltas.size(), 1u);
  const auto ms = [](auto time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  };
  ASSERT_EQ(deltas[0].earlier.size(), 2u);
  EXPECT_EQ(ms(deltas[0].earlier[0].sent).count(), 3);
  EXPECT_EQ(deltas[0].earlier[0].end, 1u);
  EXPECT_EQ(ms(deltas[0].earlier[1].sent).count(), 5);
  EXPECT_EQ(deltas[0].earlier[1].end, 2u);
  EXPECT_EQ(ms(deltas[0].sent).count(), 9);
}

TEST(Channel, AMergedDeltaHasEverythingOfTheFinish) {
  PulledChannel channel(1, [] {});
  EXPECT_TRUE(channel.append(token_delta(0, 1)));
  Delta end = end_delta(0, FinishReason::kError);
  end.prompt.push_back({5, -2.0f, 1, {}});
  end.tokens.push_back({2, -1.0f, 1, {}});
  end.text = "!";
  end.error = "why";
  end.code = ErrorCode::kUnavailable;
  end.stop_token = 2;
  EXPECT_FALSE(channel.append(std::move(end)));
  std::vector<Delta> deltas;
  channel.take(deltas);
  ASSERT_EQ(deltas.size(), 1u);
  const Delta& delta = deltas[0];
  EXPECT_EQ(ids_of(delta), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(delta.text, "b!");
  EXPECT_EQ(delta.prompt.size(), 1u);
  EXPECT_EQ(delta.finish, FinishReason::kError);
  EXPECT_EQ(delta.error, "why");
  EXPECT_EQ(delta.code, ErrorCode::kUnavailable);
  EXPECT_EQ(delta.stop_token, 2);
  EXPECT_EQ(delta.seed, 11u);
  EXPECT_EQ(delta.usage.completion_tokens, 3);
}

TEST(Channel, AReaderIsWokenOnceUntilItHasArmedTheChannel) {
  PulledChannel channel(1, [] {});
  std::vector<Delta> deltas;
  EXPECT_TRUE(channel.append(token_delta(0, 1)));
  EXPECT_FALSE(channel.append(token_delta(0, 2)));
  channel.take(deltas);
  EXPECT_FALSE(channel.append(token_delta(0, 3)));
  EXPECT_FALSE(channel.arm());  // true: token 3 waits, and nobody will look
  channel.take(deltas);
  EXPECT_EQ(ids_of(deltas.at(0)), std::vector<std::int32_t>{3});
  EXPECT_TRUE(channel.arm());
  EXPECT_TRUE(channel.append(token_delta(0, 4)));
}

TEST(Channel, WhatSchedulingAReaderThrowsGoesNoFurther) {
  PulledChannel channel(1, [] { throw std::runtime_error("the executor has ended"); });
  EXPECT_NO_THROW(channel.post(token_delta(0, 1)));
  std::vector<Delta> deltas;
  channel.take(deltas);
  EXPECT_EQ(deltas.size(), 1u);
}

TEST(Mailbox, BringsEveryTokenInOrderToTheThreadThatWaits) {
  constexpr int kTokens = 20'000;
  Mailbox mailbox(1);
  std::thread engine([channel = mailbox.channel()] {
    for (int i = 0; i < kTokens; ++i) channel->post(token_delta(0, i, i));
    channel->post(end_delta(0));
  });
  std::vector<std::int32_t> ids;
  std::vector<Delta> deltas;
  bool ended = false;
  while (!ended) {
    mailbox.wait_for(std::chrono::hours(1), deltas);  // a wake-up that is lost ends in the test's time-out
    for (const Delta& delta : deltas) {
      for (const TokenInfo& token : delta.tokens) ids.push_back(token.id);
      ended = delta.finish != FinishReason::kNone;
    }
  }
  engine.join();
  ASSERT_EQ(ids.size(), std::size_t{kTokens});
  for (int i = 0; i < kTokens; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i);
}

TEST(Mailbox, NothingIsAnEmptyList) {
  Mailbox mailbox(1);
  std::vector<Delta> deltas(1);
  mailbox.wait_for(std::chrono::milliseconds(0), deltas);
  EXPECT_TRUE(deltas.empty());
}

}  // namespace
}  // namespace mortise
