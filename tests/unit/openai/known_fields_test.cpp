#include "openai/known_fields.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace mortise {
namespace {

using Json = nlohmann::json;

constexpr const char *kChatUrl = "/v1/chat/completions", *kCompletionsUrl = "/v1/completions", *kScoreUrl = "/v1/score";

TEST(KnownFields, UnknownOnesAreListedAndIgnored) {
  using Names = std::vector<std::string>;
  const Json body = {{"prompt", "x"}, {"tempreature", 0}, {"top_p", 1}, {"nobody", 1}, {"bad_words", Json::array()}};
  EXPECT_EQ(unknown_fields(kCompletionsUrl, body), (Names{"nobody", "tempreature"}));
  EXPECT_EQ(unknown_fields(kScoreUrl, {{"prompt", "x"}, {"completions", {"y"}}, {"id", 1}, {"top_p", 1}}),
            Names{"top_p"});
  EXPECT_EQ(unknown_fields(kChatUrl, {{"prompt", "x"}}), Names{"prompt"});
  EXPECT_EQ(unknown_fields("/other", body), Names{});
  EXPECT_EQ(unknown_fields(kChatUrl, Json::array()), Names{});
  EXPECT_EQ(unknown_fields_text(kCompletionsUrl, unknown_fields(kCompletionsUrl, body)),
            "unknown fields are ignored: nobody, tempreature (did you mean 'temperature'?)");
}

TEST(KnownFields, TheirTextFitsAHeader) {
  EXPECT_EQ(unknown_fields_text(kChatUrl, {}), "");
  EXPECT_EQ(unknown_fields_text(kChatUrl, {"a\r\nSet-Cookie: \"x\"\xff"}),
            "unknown fields are ignored: a??Set-Cookie: ?x??");
  std::vector<std::string> many(12, "zzzzzzzz");
  many[0] = std::string(100000, 'z');
  const std::string text = unknown_fields_text(kChatUrl, many);
  EXPECT_LT(text.size(), 300u);
  EXPECT_THAT(text, testing::EndsWith(" and 2 more"));
}

TEST(KnownFields, ALogRemembersNames) {
  UnknownFieldLog log;
  const Json body = {{"messages", 1}, {"foo", 1}};
  EXPECT_EQ(log.note(kChatUrl, body), std::vector<std::string>{"foo"});
  EXPECT_EQ(log.note(kChatUrl, body), std::vector<std::string>{"foo"});  // empty: headers would lack it
}

}  // namespace
}  // namespace mortise
