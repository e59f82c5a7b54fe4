#include "pipeline/callback_thread.hpp"

#include <memory>
#include <thread>

#include "error.hpp"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;
using namespace std::chrono_literals;

template <typename Call>
ErrorCode code_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kInvalid;
}

TEST(CallbackThread, ReturnsAndThrowsWhatTheWorkDoes) {
  CallbackThread thread("chat.lua");
  auto value = std::make_shared<int>(0);
  thread.run("on_request", 1h, [value] { *value = 7; });
  EXPECT_EQ(*value, 7);
  EXPECT_EQ(value.use_count(), 1);  // 2: the caller returned before the work let go of what it owned
  EXPECT_EQ(error_of([&] { thread.run("on_request", 1h, [] { fail("no such user"); }); }), "no such user");
  EXPECT_EQ(error_of([&] { thread.run("on_request", 1h, [] {}); }), "");
}

TEST(CallbackThread, ACallThatDoesNotReturnIsAbandonedAndOthersAreRefusedUntilItDoes) {
  CallbackThread thread("chat.lua");
  std::promise<void> go_on;
  const auto stuck = [gate = go_on.get_future().share()] { gate.wait(); };
  EXPECT_EQ(error_of([&] { thread.run("chat_template", 1ms, stuck); }),
            "chat.lua: chat_template did not return within 0.001 s and was abandoned; a single call of a library "
            "function took that long: simplify the patterns that it gives to string.find, match, gmatch or gsub");
  int calls = 0;
  const auto count = [&calls] { ++calls; };
  EXPECT_EQ(error_of([&] { thread.run("on_request", 1h, count); }),
            "chat.lua: on_request cannot be called: an earlier call of chat_template, which was abandoned, has not "
            "returned; no callback of the script can run until it does");
  EXPECT_EQ(code_of([&] { thread.run("on_request", 1h, count); }), ErrorCode::kUnavailable);
  EXPECT_EQ(calls, 0);
  go_on.set_value();
  while (calls == 0) {  // for ever: a call that returned late would still count as running
    try {
      thread.run("on_request", 1h, count);
    } catch (const Error&) {
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(calls, 1);
}

TEST(CallbackThread, AnAbandonedCallOutlivesItsCaller) {
  std::promise<void> go_on;
  auto owned = std::make_shared<int>(0);
  {
    CallbackThread thread("chat.lua");
    const auto stuck = [gate = go_on.get_future().share(), owned] { gate.wait(); };
    EXPECT_EQ(code_of([&] { thread.run("chat_template", 1ms, stuck); }), ErrorCode::kInternal);
  }  // for ever: the destructor waits for the call
  EXPECT_EQ(owned.use_count(), 2);
  go_on.set_value();
  while (owned.use_count() > 1) std::this_thread::yield();
}

}  // namespace
}  // namespace mortise
