#include "error.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

TEST(Error, HasItsTextAndTheCodeThatAServerAnswersWith) {
  try {
    fail("{}:{}: unknown option '{}'", "chat.lua", 6, "{}");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "chat.lua:6: unknown option '{}'");  // braces of a user's text are no format
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
  }
  try {
    fail(ErrorCode::kOverloaded, "{} requests wait", 9);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "9 requests wait");
    EXPECT_EQ(dynamic_cast<const Error&>(error).code(), ErrorCode::kOverloaded);
  }
}

}  // namespace
}  // namespace mortise
