#include "server/http.hpp"

#include <gmock/gmock.h>

namespace mortise {
namespace {

TEST(PathOf, IsTheDecodedTargetWithoutHostAndQuery) {
  EXPECT_EQ(path_of("/v1/models"), "/v1/models");
  EXPECT_EQ(path_of("/v1/models?x=1&y=/a"), "/v1/models");
  EXPECT_EQ(path_of("http://host:80/v1/models?x=1"), "/v1/models");
  EXPECT_EQ(path_of("https://host/"), "/");
  EXPECT_EQ(path_of("http://host"), "");
  EXPECT_EQ(path_of("/v1/models/a%2Fb%20c%C3%A9"), "/v1/models/a/b c\u00e9");
  EXPECT_EQ(path_of("/a+b"), "/a+b");  // a plus is a space in forms alone
  EXPECT_EQ(path_of(""), "");
  EXPECT_EQ(path_of("*"), "*");
}

TEST(PathOf, BrokenPercentCodesAreMalformed) {
  for (const char* target : {"/%", "/%4", "/%g0", "/%0g", "/a%%20", "/% 41", "/%-1"}) {
    EXPECT_EQ(path_of(target), std::nullopt) << target;
  }
  EXPECT_EQ(path_of("/a?%"), "/a");  // of the query alone
}

TEST(QueryValue, IsThatOfTheWholeName) {
  EXPECT_EQ(query_value("/a?x=1&yy=2&y=3", "y"), "3");
  EXPECT_EQ(query_value("/a?x=1&yy=2", "y"), std::nullopt);
  EXPECT_EQ(query_value("/a?x=1&x=2", "x"), "1");
  EXPECT_EQ(query_value("/a?x=a%26b%3Dc", "x"), "a&b=c");
  EXPECT_EQ(query_value("/a?x=b=c", "x"), "b=c");
  EXPECT_EQ(query_value("/a?x=", "x"), "");
  EXPECT_EQ(query_value("/a?x", "x"), std::nullopt);
  EXPECT_EQ(query_value("/a?&&x=1&", "x"), "1");
  EXPECT_EQ(query_value("/a?x=%", "x"), std::nullopt);
  EXPECT_EQ(query_value("/x=1", "x"), std::nullopt);
  EXPECT_EQ(query_value("", "x"), std::nullopt);
}

// It is repeated in a header and in the log.
TEST(UsableRequestId, IsShortPrintableAscii) {
  EXPECT_EQ(usable_request_id("req-1"), "req-1");
  EXPECT_EQ(usable_request_id(std::string(128, 'x')), std::string(128, 'x'));
  for (const std::string& text :
       {std::string(), std::string(129, 'x'), std::string("a b"), std::string("a\r\nSet-Cookie: b"),
        std::string("a\x7f"), std::string("\u00e9"), std::string("a\0b", 3)}) {
    EXPECT_EQ(usable_request_id(text), std::nullopt) << text;
  }
}

TEST(DrawRequestId, IsUsableAndAnotherOneEachTime) {
  const std::string first = draw_request_id();
  EXPECT_EQ(usable_request_id(first), first);
  EXPECT_NE(draw_request_id(), first);
}

TEST(HttpAnswers, AreJsonWhateverIsInTheTexts) {
  const HttpAnswer answer = error_answer(400, "model: '\xff' is no name");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.content_type, "application/json");
  const auto error = nlohmann::json::parse(answer.body)["error"];
  EXPECT_EQ(error["message"], "model: '\uFFFD' is no name");
  EXPECT_EQ(error["code"], nullptr);
  EXPECT_EQ(nlohmann::json::parse(error_answer(429, "later", "overloaded").body)["error"]["code"], "overloaded");
}

TEST(HttpAnswers, SayWhenToComeBack) {
  Answer answer = {};
  answer.status = 429;
  EXPECT_TRUE(http_answer(answer).headers.empty());
  answer.retry_after_s = 7;
  EXPECT_THAT(http_answer(answer).headers, testing::ElementsAre(testing::Pair("Retry-After", "7")));
}

TEST(HttpRequest, HeadersAreFoundWhateverTheirCase) {
  HttpRequest request;
  request.message.set("X-Request-Id", "abc");
  request.message.target("/v1/models?x=1");
  EXPECT_EQ(request.header("x-request-id"), "abc");
  EXPECT_EQ(request.header("x-request"), "");
  EXPECT_EQ(request.target(), "/v1/models?x=1");
}

}  // namespace
}  // namespace mortise
