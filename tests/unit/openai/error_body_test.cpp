#include "openai/error_body.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

using ErrorJson = nlohmann::ordered_json;

ErrorJson member(int status, const std::string& message, const std::optional<std::string>& code = std::nullopt) {
  return error_body(status, message, code)["error"];
}

TEST(ErrorBody, HasTheFourMembersInTheOrderOfOpenAi) {
  EXPECT_EQ(error_body(400, "temperature is 3; it must be from 0 to 2", std::nullopt).dump(),
            R"({"error":{"message":"temperature is 3; it must be from 0 to 2","type":"invalid_request_error",)"
            R"("param":"temperature","code":null}})");
}

TEST(ErrorBody, TheTypeFollowsTheStatus) {
  EXPECT_EQ(member(400, "x")["type"], "invalid_request_error");
  EXPECT_EQ(member(404, "x")["type"], "invalid_request_error");
  EXPECT_EQ(member(401, "x")["type"], "authentication_error");
  EXPECT_EQ(member(429, "x")["type"], "rate_limit_error");
  EXPECT_EQ(member(500, "x")["type"], "server_error");
  EXPECT_EQ(member(503, "x")["type"], "server_error");
}

TEST(ErrorBody, AParamIsAFieldThatTheMessageBeginsWith) {
  EXPECT_EQ(member(400, "stop: expected a string")["param"], "stop");
  EXPECT_EQ(member(400, "max_tokens is -1")["param"], "max_tokens");
  EXPECT_EQ(member(400, "stop")["param"], "stop");
  EXPECT_EQ(member(400, "stopped too early")["param"], nullptr);
  EXPECT_EQ(member(400, "the stop is wrong")["param"], nullptr);
  EXPECT_EQ(member(400, "")["param"], nullptr);
  EXPECT_EQ(member(500, "stop: the engine failed")["param"], nullptr);  // the client's fields are not to blame
}

TEST(ErrorBody, AModelThatIsNotThereHasTheCodeOfOpenAi) {
  EXPECT_EQ(member(404, "model 'x' is not served")["code"], "model_not_found");
  EXPECT_EQ(member(404, "there is no /v2")["code"], nullptr);
  EXPECT_EQ(member(400, "model: expected a string")["code"], nullptr);
  EXPECT_EQ(member(429, "x", "overloaded")["code"], "overloaded");
}

}  // namespace
}  // namespace mortise
