// Requests that submit() accepts or refuses at once, with the reason.
#include "engine/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_fixture.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using namespace mortise::test;
using ::testing::HasSubstr;

class SubmitTest : public EngineTest {};

TEST_F(SubmitTest, ARequestForNothingEndsAtOnce) {
  Collector collector;
  start().submit(greedy({1, 2}, 0), collector.sink());
  EXPECT_EQ(collector.wait().at(0).last.finish, FinishReason::kLength);
}

TEST_F(SubmitTest, RefusesWhatCanNeverRun) {
  start();
  const auto message = [&](const Request& request) -> std::string {
    try {
      engine->submit(request, [](const Delta&) {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message(greedy({}, 1)), HasSubstr("empty"));
  EXPECT_THAT(message(greedy({kVocab}, 1)), HasSubstr("ids are from 0 to 96"));
  EXPECT_THAT(message(greedy(std::vector<std::int32_t>(64, 1), 1)),
              HasSubstr("exceeds the model's length of 64; shorten it"));
  Request request = greedy({1}, 1);
  request.sampling.top_p = 0;
  EXPECT_THAT(message(request), HasSubstr("top_p is 0"));
}

TEST_F(SubmitTest, RefusesARequestLargerThanTheWholeCacheWithTheNumbers) {
  EngineLimits limits = small_limits();
  limits.num_blocks = 5;
  start(limits);
  try {
    engine->submit(greedy({1, 2, 3}, 30), [](const Delta&) {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("need 9 KV blocks, but the whole cache has 5"));
  }
}

}  // namespace
}  // namespace mortise
