#include "openai/unserved_fields.hpp"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "error.hpp"

namespace mortise {
namespace {

using testing::StartsWith;

// The message, or nothing: the body is taken.
std::string unserved(const std::string& url, const char* body) {
  try {
    refuse_unserved_fields(url, nlohmann::json::parse(body));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(UnservedFields, ThoseThatChangeTheAnswerAreNamed) {
  const std::pair<const char*, const char*> chats[] = {
      {R"({"tools": [{"type": "function"}]})", "tools is not supported: this engine calls no tools"},
      {R"({"tool_choice": "required"})", "tool_choice is not supported"},
      {R"({"tool_choice": {"type": "function"}})", "tool_choice is not supported"},
      {R"({"functions": [{}]})", "functions is not supported"},
      {R"({"modalities": ["text", "audio"]})", "modalities is not supported: answers are text"},
      {R"({"audio": {"voice": "v"}})", "audio is not supported"},
      {R"({"echo": true})", "echo is not supported in chats; use /v1/completions"},
      {R"({"best_of": 2})", "best_of is not supported in chats"},
      {R"({"bad_words": ["x"]})", "bad_words is not supported; ban single tokens with logit_bias"},
      {R"({"grammar": "root ::= x"})", "grammar is not supported; leave it out"},
      {R"({"logits_processors": ["x"]})", "logits_processors is not supported: requests cannot bring code"},
      {R"({"prompt_logprobs": 0})", "prompt_logprobs is not supported; use /v1/completions with echo and logprobs"},
      {R"({"use_beam_search": true})", "use_beam_search is not supported; use best_of of /v1/completions"},
      {R"({"allowed_token_ids": [1]})", "allowed_token_ids is not supported"},
      {R"({"truncate_prompt_tokens": 5})",
       "truncate_prompt_tokens is not supported; shorten the prompt before you send it"},
      {R"({"thinking_token_budget": 5})", "thinking_token_budget is not supported; limit the answer with max_tokens"},
      {R"({"include_stop_str_in_output": true})",
       "include_stop_str_in_output is not supported: the answer ends before"},
      {R"({"no_stop_trim": true})", "no_stop_trim is not supported: the answer ends before its stop string"},
      {R"({"return_hidden_states": true})", "return_hidden_states is not supported"},
      {R"({"spaces_between_special_tokens": false, "skip_special_tokens": false})", "spaces_between_special_tokens is"},
      {R"({"lora_name": "x"})", "lora_name is not supported: a pipeline has no adapters"},
      {R"({"mirostat": 2})", "mirostat is not supported; the samplers are temperature"},
      {R"({"n_predict": 5})", "n_predict is called max_tokens here"}};
  for (const auto& [body, message] : chats)
    EXPECT_THAT(unserved("/v1/chat/completions", body), StartsWith(message)) << body;
  EXPECT_THAT(unserved("/v1/completions", R"({"prompt_embeds": "x"})"), StartsWith("prompt_embeds is not supported"));
  EXPECT_THAT(unserved("/v1/score", R"({"truncate_prompt_tokens": 5})"), StartsWith("truncate_prompt_tokens is not"));
}

TEST(UnservedFields, ValuesThatChangeNothingAreTaken) {
  const char* const chats[] = {
      R"({"tools": [], "tool_choice": "auto", "functions": null, "function_call": "none", "audio": null})",
      R"({"modalities": ["text"], "echo": false, "best_of": 1, "add_generation_prompt": true, "bad_words": []})",
      R"({"grammar": "", "use_beam_search": false, "thinking_token_budget": -1, "mirostat": 0, "typical_p": 1.0})",
      R"({"spaces_between_special_tokens": false, "n_predict": -1, "length_penalty": 2, "chat_template_kwargs": {}})"};
  for (const char* body : chats) EXPECT_EQ(unserved("/v1/chat/completions", body), std::string()) << body;
  const std::string none;
  EXPECT_EQ(unserved("/v1/completions", R"({"echo": true, "best_of": 3, "tools": [1]})"),
            none);  // fields of other urls
}

}  // namespace
}  // namespace mortise
