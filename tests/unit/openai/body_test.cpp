// Covers: runtime/openai/chat_request
#include "openai/body.hpp"
#include "openai/chat_request.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Tokenizer& tokenizer() {
  static const Tokenizer value = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  return value;
}

std::string refusal(const Json& json) {
  try {
    read_sampling(Body(json), {});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

Request scheduled(const Json& json) {
  Request request;
  read_scheduling(Body(json), request);
  return request;
}

TEST(ReadScheduling, TakesWhoDraftsForARequest) {
  const Request request = scheduled({{"speculation", {{"proposer", "ngram"}, {"max_tokens", 3}}}});
  EXPECT_EQ(request.speculation.proposer, "ngram");
  EXPECT_EQ(request.speculation.max_tokens, 3);
  for (const Json& absent : {Json::object(), Json{{"speculation", nullptr}}, Json{{"speculation", Json::object()}},
                             Json{{"speculation", {{"proposer", nullptr}, {"max_tokens", nullptr}}}}}) {
    EXPECT_EQ(scheduled(absent).speculation.proposer, std::nullopt);
    EXPECT_EQ(scheduled(absent).speculation.max_tokens, std::nullopt);
  }
}

TEST(ReadScheduling, SaysWhatIsWrongWithSpeculation) {
  const auto refusal = [](const Json& speculation) -> std::string {
    try {
      scheduled({{"speculation", speculation}});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("ngram"), R"(speculation: expected a JSON object, got "ngram")");
  EXPECT_EQ(refusal({{"proposer", 3}}), "speculation.proposer: expected a string, got 3");
  EXPECT_EQ(refusal({{"max_tokens", "3"}}), R"(speculation.max_tokens: expected an integer, got "3")");
  EXPECT_EQ(refusal({{"max_tokens", -1}}), "speculation.max_tokens is -1; it must be from 0 to 2147483647");
  EXPECT_EQ(refusal({{"proposers", "x"}}), "speculation: unknown field 'proposers'; it has proposer and max_tokens");
}

TEST(ReadSampling, TakesEveryFieldThatClientsSend) {
  const Json json = {{"temperature", 0.5},
                     {"top_p", 0.9},
                     {"top_k", 7},
                     {"min_p", 0.1},
                     {"n", 3},
                     {"max_tokens", 9},
                     {"min_tokens", 2},
                     {"seed", 0},
                     {"stop", "end"},
                     {"ignore_eos", true},
                     {"logit_bias", {{"5", -2}}},
                     {"stop_token_ids", {1, 2}},
                     {"user", "ignored"},
                     {"skip_special_tokens", false},
                     {"presence_penalty", 1},
                     {"frequency_penalty", 0.25},
                     {"repetition_penalty", 1.5}};
  const SamplingParams params = read_sampling(Body(json), {});
  EXPECT_EQ(params.temperature, 0.5f);
  EXPECT_EQ(params.top_p, 0.9f);
  EXPECT_EQ(params.top_k, 7);
  EXPECT_EQ(params.min_p, 0.1f);
  EXPECT_EQ(params.n, 3);
  EXPECT_EQ(params.max_tokens, 9);
  EXPECT_EQ(params.min_tokens, 2);
  EXPECT_EQ(params.seed, 0u);  // a seed, not "none"
  EXPECT_THAT(params.stop, ElementsAre("end"));
  EXPECT_TRUE(params.ignore_eos);
  EXPECT_EQ(params.logit_bias.at(5), -2.0f);
  EXPECT_THAT(params.stop_token_ids, ElementsAre(1, 2));
  EXPECT_FALSE(params.skip_special_tokens);
  EXPECT_EQ(params.presence_penalty, 1.0f);
  EXPECT_EQ(params.frequency_penalty, 0.25f);
  EXPECT_EQ(params.repetition_penalty, 1.5f);
}

TEST(ReadSampling, NullMeansTheDefault) {
  SamplingParams defaults;
  defaults.temperature = 0.25f;
  const SamplingParams params =
      read_sampling(Body(Json{{"temperature", nullptr}, {"stop", nullptr}, {"seed", nullptr}}), defaults);
  EXPECT_EQ(params.temperature, 0.25f);
  EXPECT_TRUE(params.stop.empty());
  EXPECT_FALSE(params.seed.has_value());
}

TEST(ReadSampling, ANegativeSeedIsASeedAndEveryOneOfThemAnother) {
  const auto seed = [](const Json& value) { return *read_sampling(Body(Json{{"seed", value}}), {}).seed; };
  EXPECT_NE(seed(-1), seed(-2));
  EXPECT_EQ(seed(18446744073709551615u), 18446744073709551615u);
}

TEST(ReadSampling, NamesTheFieldAndWhatItGot) {
  EXPECT_THAT(refusal({{"temperature", "hot"}}), HasSubstr("temperature: expected a number, got \"hot\""));
  EXPECT_THAT(refusal({{"max_tokens", 1.5}}), HasSubstr("max_tokens: expected an integer, got 1.5"));
  EXPECT_THAT(refusal({{"max_tokens", 1e300}}), HasSubstr("max_tokens is 1e+300; it must be from 0"));
  EXPECT_THAT(refusal({{"stop", {1}}}), HasSubstr("stop: expected a string or a list of strings, got 1"));
  EXPECT_THAT(refusal({{"logit_bias", {{"x", 1}}}}), HasSubstr("logit_bias: 'x' is not a token id"));
  EXPECT_THAT(refusal({{"stop_token_ids", {-1}}}), HasSubstr("stop_token_ids: expected token ids, got -1"));
  EXPECT_THAT(refusal(Json::array()), HasSubstr("body: expected a JSON object"));
}

TEST(ReadSampling, TakesChoicesUnderEachOfTheirNames) {
  const auto choices = [](const Json& json) { return read_sampling(Body(json), {}).choices; };
  EXPECT_THAT(choices({{"choices", {"a", "b"}}}), ElementsAre(GuidedChoice("a"), GuidedChoice("b")));
  EXPECT_THAT(choices({{"guided_choice", {"a", "b"}}}), ElementsAre(GuidedChoice("a"), GuidedChoice("b")));
  EXPECT_THAT(choices({{"structured_outputs", {{"choice", {"a"}}, {"json", nullptr}, {"json_object", false}}}}),
              ElementsAre(GuidedChoice("a")));
  EXPECT_THAT(choices({{"choices", {"a", {5, 6}}}}),
              ElementsAre(GuidedChoice("a"), GuidedChoice(std::vector<std::int32_t>{5, 6})));
  EXPECT_TRUE(choices({{"choices", nullptr}, {"guided_choice", nullptr}, {"structured_outputs", nullptr}}).empty());
  EXPECT_TRUE(choices({{"structured_outputs", {{"disable_any_whitespace", true}}}}).empty());
}

TEST(ReadSampling, ChoicesNeedAsManyTokensAsTheyNeed) {
  EXPECT_EQ(read_sampling(Body(Json{{"choices", {"a"}}}), {}).max_tokens, INT32_MAX);
  EXPECT_EQ(read_sampling(Body(Json{{"choices", {"a"}}, {"max_tokens", 3}}), {}).max_tokens, 3);
}

TEST(ReadTokenIds, TakesIntegersHoweverTheyAreWritten) {
  EXPECT_THAT(read_token_ids(Json::parse("[7, 7.0, 7e0, 2147483647]"), "x"), ElementsAre(7, 7, 7, INT32_MAX));
  for (const char* text : {"[7.5]", "[-1]", "[2147483648]", "[1e300]", "[true]", "[null]"}) {
    EXPECT_THROW(read_token_ids(Json::parse(text), "x"), Error) << text;
  }
}

TEST(FailType, CutsWhatItShowsBetweenCharacters) {
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'a');
    while (text.size() < 100) text += "\u20ac";  // three bytes each
    try {
      fail_type("x", "a number", text);
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.ends_with("\u20ac...")) << message;
    }
  }
}

TEST(ReadSampling, NamesWhatIsWrongWithChoices) {
  EXPECT_EQ(refusal({{"choices", "yes"}}), "choices: expected a list of texts and lists of token ids, got \"yes\"");
  EXPECT_EQ(refusal({{"choices", {"yes", 7}}}), "choices[1]: expected a text or a list of token ids, got 7");
  EXPECT_EQ(refusal({{"guided_choice", Json::array()}}),
            "guided_choice is an empty list; it must have at least one text or list of token ids, or be left out");
  EXPECT_EQ(refusal({{"choices", {"yes", {5, "a"}}}}), "choices[1]: expected token ids, got \"a\"");
  EXPECT_EQ(refusal({{"choices", {"a"}}, {"structured_outputs", {{"choice", {"a"}}}}}),
            "choices and structured_outputs.choice mean the same; give only one of them");
  EXPECT_EQ(refusal({{"structured_outputs", {{"regex", "a*"}}}}),
            "structured_outputs: 'regex' is not supported; use 'choice'");
  EXPECT_EQ(refusal({{"structured_outputs", "choice"}}), "structured_outputs: expected a JSON object, got \"choice\"");
}

TEST(CheckAmount, ABodyMayAskForSoManyChoicesAndCopies) {
  const auto refusal_of = [](std::size_t num_prompts, const SamplingParams& params) -> std::string {
    try {
      check_amount(num_prompts, params);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  SamplingParams params;
  EXPECT_EQ(refusal_of(16384, params), "");
  EXPECT_EQ(refusal_of(16385, params),
            "the body asks for 16385 choices (16385 prompts, n = 1); at most 16384 are allowed: send several bodies");
  params.n = 128;
  EXPECT_THAT(refusal_of(1000, params), HasSubstr("asks for 128000 choices (1000 prompts, n = 128)"));
  params.n = 1;
  params.choices = {std::string(1 << 20, 'x')};
  EXPECT_EQ(refusal_of(100, params), "");
  EXPECT_THAT(refusal_of(300, params), HasSubstr("300 prompts and 10486"));
  EXPECT_THAT(refusal_of(300, params),
              HasSubstr("bytes of stop, choices and logit_bias, which each prompt gets a copy"));
}

TEST(NumSequences, CountsWhatABodyKeepsBusy) {
  const std::string completions = "/v1/completions", chat = "/v1/chat/completions";
  EXPECT_EQ(num_sequences(completions, {{"prompt", "a"}}), 1u);
  EXPECT_EQ(num_sequences(completions, {{"prompt", {1, 2, 3}}, {"n", 4u}}), 4u);
  EXPECT_EQ(num_sequences(completions, {{"prompt", {"a", "b", "c"}}, {"n", 2u}, {"best_of", 5u}}), 15u);
  EXPECT_EQ(num_sequences(completions, {{"prompt", "a"}, {"n", 1000u}}), 128u);  // it will be refused
  EXPECT_EQ(num_sequences(chat, {{"messages", {{{"role", "user"}}}}, {"n", 3u}}), 3u);
  EXPECT_EQ(num_sequences("/v1/score", {{"prompt", "a"}, {"completions", {"x", "y"}}}), 2u);
  // Only /v1/score has the field `completions`; elsewhere it counts for nothing.
  EXPECT_EQ(num_sequences(completions, {{"prompt", "a"}, {"completions", {"x", "y"}}}), 1u);
  // Choices that are scored are sequences too, whatever they are called.
  const Json two = {"x", "y"};
  EXPECT_EQ(num_sequences(completions, {{"prompt", {"a", "b", "c"}}, {"choices", two}}), 3u);
  EXPECT_EQ(num_sequences(completions, {{"prompt", {"a", "b", "c"}}, {"choices", two}, {"choice_logprobs", true}}), 9u);
  EXPECT_EQ(num_sequences(chat, {{"guided_choice", two}, {"choice_logprobs", true}, {"n", 4u}}), 6u);
  EXPECT_EQ(num_sequences(chat, {{"structured_outputs", {{"choice", two}}}, {"choice_logprobs", true}}), 3u);
  EXPECT_EQ(num_sequences(chat, {{"structured_outputs", 5}, {"choices", 5}, {"choice_logprobs", true}}), 1u);
}

TEST(ChatTokens, ATemplateThatWritesTheFirstSpecialTokenDoesNotGetItTwice) {
  const auto tokens = [](const std::string& text, bool add_special_tokens) {
    return chat_tokens({{{text, true}}, add_special_tokens}, tokenizer());
  };
  const std::vector<std::int32_t> plain = tokens("hello", true);
  ASSERT_EQ(plain.front(), *tokenizer().bos_id());
  EXPECT_EQ(tokens("<|bos|>hello", true), plain);
  EXPECT_EQ(tokens("<|bos|>hello", false), plain);  // a checkpoint's template writes it
  EXPECT_EQ(tokens("hello", false).size() + 1, plain.size());
}

TEST(ChatTokens, MoreThanTheMostAreRefused) {
  const ChatPrompt prompt{{{"<|bos|><|bos|><|bos|>", true}}, false};
  EXPECT_EQ(chat_tokens(prompt, tokenizer(), 3).size(), 3u);
  try {
    chat_tokens(prompt, tokenizer(), 2);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the chat has more than 2 tokens, many"));
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
  }
}

TEST(ChatRequest, ManyKeysTakeNoSquareOfTime) {
  nlohmann::json message = {{"role", "user"}, {"content", "q"}, {"null", nullptr}};
  std::string arguments = "{";
  for (int i = 0; i < 200'000; ++i) {
    message[fmt::format("key{}", i)] = i;
    arguments += fmt::format("{}\"{}\": 1", i == 0 ? "" : ",", i);
  }
  message["tool_calls"] = {{{"function", {{"arguments", arguments + "}"}}}}};
  const nlohmann::json body = {{"messages", {message}}};
  const auto read = read_chat_input(Body(body)).messages[0];  // comparing all pairs of keys would take minutes
  EXPECT_EQ(read.size(), 200'003u);
  EXPECT_EQ(read.begin().key(), "role");
  EXPECT_EQ(read["content"], "q");
  EXPECT_EQ(read["tool_calls"][0]["function"]["arguments"].size(), 200'000u);
}

TEST(CheckRole, OtherRolesAreNamed) {
  for (const char* role : {"system", "developer", "user", "assistant", "tool", "function"}) check_role(role);
  const auto role_error = [](const std::optional<std::string>& role) -> std::string {
    try {
      check_role(role);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(role_error("wizard"),
            "messages: role 'wizard' is not one of system, developer, user, assistant, tool, function");
  EXPECT_THAT(role_error(std::nullopt), HasSubstr("a message has no role"));
}

}  // namespace
}  // namespace mortise
