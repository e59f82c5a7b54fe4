// Covers: runtime/loader/{call_watchdog,repeated_messages,running_calls}
#include "loader/active_part.hpp"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "loader/call_watchdog.hpp"
#include "loader/repeated_messages.hpp"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A part whose functions do what the test says.
struct Toy {
  std::function<mortise_status()> does;
  int num_calls = 0;
};
struct ToyTable {
  mortise_status (*act)(Toy*, int, mortise_error*) = [](Toy* toy, int, mortise_error*) {
    ++toy->num_calls;
    return toy->does();
  };
  int (*count)(Toy*) = [](Toy* toy) { return ++toy->num_calls, toy->does(); };
  void (*drop)(Toy*, int) = [](Toy* toy, int) { ++toy->num_calls, toy->does(); };
};
constexpr ToyTable kTable;

class ActivePartTest : public ::testing::Test {
 protected:
  void throws() {
    toy.does = []() -> mortise_status { throw std::runtime_error("boom"); };
  }
  Toy toy{[] { return MORTISE_OK; }};
  ActivePart<Toy, ToyTable> part{&toy, &kTable, "toy 'x'"};
};

TEST_F(ActivePartTest, AStatusBecomesAnErrorWithPartFunctionAndCode) {
  toy.does = [] { return MORTISE_RESOURCE_EXHAUSTED; };
  try {
    part.call<&ToyTable::act>("act", 1);
    FAIL();
  } catch (const PartError& error) {
    EXPECT_STREQ(error.what(), "toy 'x': act: gave no reason (RESOURCE_EXHAUSTED)");
    EXPECT_EQ(error.code(), ErrorCode::kOverloaded);
  }
  EXPECT_FALSE(part.health->failed());
  EXPECT_FALSE(part.try_call<&ToyTable::act>("act", 1).ok());
  EXPECT_EQ(toy.num_calls, 2);
}

TEST_F(ActivePartTest, AfterInternalNothingIsCalledAgain) {
  toy.does = [] { return MORTISE_INTERNAL; };
  EXPECT_EQ(part.try_call<&ToyTable::act>("act", 1).status, MORTISE_INTERNAL);
  EXPECT_TRUE(part.health->failed());
  toy.does = [] { return MORTISE_OK; };
  EXPECT_EQ(part.try_call<&ToyTable::act>("act", 1).status, MORTISE_UNAVAILABLE);
  EXPECT_THAT(error_of([&] { part.call<&ToyTable::act>("act", 1); }),
              HasSubstr("is not called again after a failure: toy 'x': act: gave no reason (INTERNAL)"));
  EXPECT_EQ(part.value<&ToyTable::count>("count", 7), 7);
  part.tell<&ToyTable::drop>("drop", 1);
  EXPECT_EQ(toy.num_calls, 1);
}

TEST_F(ActivePartTest, AnExceptionIsInternalInEveryKindOfFunction) {
  throws();
  EXPECT_THAT(error_of([&] { part.call<&ToyTable::act>("act", 1); }),
              HasSubstr("toy 'x': act: an exception crossed the C ABI: boom (INTERNAL)"));
  part.health = std::make_shared<PartHealth>();
  EXPECT_EQ(part.value<&ToyTable::count>("count", 7), 7);
  EXPECT_THAT(part.health->reason(), HasSubstr("toy 'x': count: an exception crossed the C ABI: boom"));
  part.health = std::make_shared<PartHealth>();
  part.tell<&ToyTable::drop>("drop", 1);
  EXPECT_TRUE(part.health->failed());
}

TEST_F(ActivePartTest, CallsThatTakeTooLongAreReportedOnceAndSoAreTheirReturns) {
  std::vector<std::string> told;
  LongCalls calls({.step_s = 10, .control_s = 100}, [&](const std::string& text) { told.push_back(text); });
  toy.does = [&] {
    calls.look(1000);
    calls.look(1009);
    EXPECT_THAT(told, IsEmpty());
    calls.look(1012);
    calls.look(1020);
    return MORTISE_OK;
  };
  part.health->set_active(true);
  part.call<&ToyTable::act>("act", 1);
  calls.look(1021);
  EXPECT_THAT(told, ElementsAre("toy 'x': act: has been running for 12.0 s, the limit is 10 s; everything waits for it",
                                "toy 'x': act: returned after 21.0 s"));
  told.clear();
  part.health->set_active(false);  // loading takes longer than a step
  part.call<&ToyTable::act>("act", 1);
  EXPECT_THAT(told, IsEmpty());
}

TEST_F(ActivePartTest, TheTimeOfACallIncludesTheCallsThatItMakes) {
  std::vector<std::string> told;
  LongCalls calls({.step_s = 10, .control_s = 10}, [&](const std::string& text) { told.push_back(text); });
  Toy inner{[] { return MORTISE_OK; }};
  const ActivePart<Toy, ToyTable> other{&inner, &kTable, "toy 'inner'"};
  double now = 0;
  inner.does = [&] { return calls.look(now += 4), MORTISE_OK; };
  toy.does = [&] {
    for (int i = 0; i < 5; ++i) other.call<&ToyTable::act>("act", 1);
    return MORTISE_OK;
  };
  part.call<&ToyTable::act>("act", 1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("toy 'x': act: has been running for 12.0 s"));
}

TEST(RepeatedMessages, AListenerHearsOfEachFailure) {
  std::vector<std::string> heard;
  RepeatedMessages messages([&](const std::string& failure) { heard.push_back(failure); });
  for (int i = 0; i < 2; ++i) messages.warn("scheduler 'x'", "plan", MORTISE_OK, "bad plan", "nothing comes of it");
  EXPECT_EQ(heard, std::vector<std::string>(2, "scheduler 'x': plan: bad plan (OK)"));
}

TEST(RepeatedMessages, TheFirstIsLoggedAndTheOthersAreCounted) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log));
  logger->set_pattern("%v");
  spdlog::set_default_logger(logger);
  {
    RepeatedMessages messages;
    for (int i = 0; i < 39; ++i) messages.warn("toy 'x'", "act", MORTISE_UNAVAILABLE, "not today", "tomorrow then");
    messages.warn("toy 'x'", "act", MORTISE_OK, "something else", "never mind");
  }
  spdlog::set_default_logger(before);
  EXPECT_EQ(log.str(),
            "toy 'x': act: not today (UNAVAILABLE); tomorrow then\n"
            "toy 'x': act: something else (OK); never mind\n"
            "toy 'x': act: 38 more times (UNAVAILABLE)\n");
}

}  // namespace
}  // namespace mortise
