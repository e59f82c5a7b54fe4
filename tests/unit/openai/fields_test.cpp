#include <gmock/gmock.h>

#include <functional>

#include "error.hpp"
#include "openai/body.hpp"
#include "openai/known_fields.hpp"
#include "openai/unserved_fields.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char *kChatUrl = "/v1/chat/completions", *kCompletionsUrl = "/v1/completions", *kScoreUrl = "/v1/score";

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const char* url, const char* body) {
  return error_of([&] { refuse_unserved_fields(url, Json::parse(body)); });
}

TEST(UnservedFields, ThoseThatChangeTheAnswerAreNamed) {
  const std::pair<const char*, const char*> chats[] = {
      {R"({"tools": [{"type": "function"}]})", "tools is not served: this engine calls no tools"},
      {R"({"tool_choice": "required"})", "tool_choice is not served"},
      {R"({"tool_choice": {"type": "function"}})", "tool_choice is not served"},
      {R"({"functions": [{}]})", "functions is not served"},
      {R"({"modalities": ["text", "audio"]})", "modalities is not served: answers are text"},
      {R"({"audio": {"voice": "v"}})", "audio is not served"},
      {R"({"echo": true})", "echo is not served in chats; /v1/completions has it"},
      {R"({"best_of": 2})", "best_of is not served in chats"},
      {R"({"bad_words": ["x"]})", "bad_words is not served; ban single tokens with logit_bias"},
      {R"({"grammar": "root ::= x"})", "grammar is not served; leave it out"},
      {R"({"logits_processors": ["x"]})", "logits_processors is not served: no code of requests runs here"},
      {R"({"prompt_logprobs": 0})", "prompt_logprobs is not served; /v1/completions with echo and logprobs has them"},
      {R"({"use_beam_search": true})", "use_beam_search is not served; /v1/completions has best_of"},
      {R"({"allowed_token_ids": [1]})", "allowed_token_ids is not served"},
      {R"({"truncate_prompt_tokens": 5})", "truncate_prompt_tokens is not served; cut the prompt before it is sent"},
      {R"({"thinking_token_budget": 5})", "thinking_token_budget is not served; bound the answer with max_tokens"},
      {R"({"include_stop_str_in_output": true})", "include_stop_str_in_output is not served: the answer ends before"},
      {R"({"no_stop_trim": true})", "no_stop_trim is not served: the answer ends before its stop string"},
      {R"({"return_hidden_states": true})", "return_hidden_states is not served"},
      {R"({"spaces_between_special_tokens": false, "skip_special_tokens": false})", "spaces_between_special_tokens is"},
      {R"({"lora_name": "x"})", "lora_name is not served: a pipeline has no adapters"},
      {R"({"mirostat": 2})", "mirostat is not served; the samplers are temperature"},
      {R"({"n_predict": 5})", "n_predict is called max_tokens here"}};
  for (const auto& [body, message] : chats) EXPECT_THAT(refusal(kChatUrl, body), StartsWith(message)) << body;
  EXPECT_THAT(refusal(kCompletionsUrl, R"({"prompt_embeds": "x"})"), StartsWith("prompt_embeds is not served"));
  EXPECT_THAT(refusal(kScoreUrl, R"({"truncate_prompt_tokens": 5})"), StartsWith("truncate_prompt_tokens is not"));
}

TEST(UnservedFields, ValuesThatChangeNothingAreTaken) {
  const char* const chats[] = {
      R"({"tools": [], "tool_choice": "auto", "functions": null, "function_call": "none", "audio": null})",
      R"({"modalities": ["text"], "echo": false, "best_of": 1, "add_generation_prompt": true, "bad_words": []})",
      R"({"grammar": "", "use_beam_search": false, "thinking_token_budget": -1, "mirostat": 0, "typical_p": 1.0})",
      R"({"spaces_between_special_tokens": false, "n_predict": -1, "length_penalty": 2, "chat_template_kwargs": {}})"};
  for (const char* body : chats) EXPECT_EQ(refusal(kChatUrl, body), std::string()) << body;
  const std::string none;
  EXPECT_EQ(refusal(kCompletionsUrl, R"({"echo": true, "best_of": 3, "tools": [1]})"), none);  // fields of other urls
}

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

TEST(CheckRole, OtherRolesAreNamed) {
  for (const char* role : {"system", "developer", "user", "assistant", "tool", "function"}) check_role(role);
  EXPECT_EQ(error_of([] { check_role("wizard"); }),
            "messages: role 'wizard' is not one of system, developer, user, assistant, tool, function");
  EXPECT_THAT(error_of([] { check_role(std::nullopt); }), HasSubstr("a message has no role"));
}

}  // namespace
}  // namespace mortise
