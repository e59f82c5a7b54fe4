// Bodies as clients send them, and the answers they read, over an engine with fake parts.
// Covers: runtime/openai/{answers,chat,completions,score,work}
#include <gmock/gmock.h>

#include "service_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(ServiceTest, EchoWithoutTokensGivesThePromptAndItsLogProbabilities) {
  for (const int max_tokens : {0, 1}) {
    const Json choice = complete({{"echo", true}, {"max_tokens", max_tokens}, {"logprobs", 2}})["choices"][0];
    EXPECT_EQ(choice["text"].get<std::string>().substr(0, 3), "abc");
    EXPECT_EQ(choice["finish_reason"], "length");
    const Json& lists = choice["logprobs"];
    for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
      EXPECT_EQ(lists[name].size(), static_cast<std::size_t>(3 + max_tokens)) << name;
    }
    EXPECT_TRUE(lists["token_logprobs"][0].is_null() && lists["top_logprobs"][0].is_null());
    EXPECT_EQ(lists["tokens"][1], "b");
    EXPECT_EQ(lists["token_logprobs"][1], static_cast<double>(fake_logit(hash_history({68}), 69) - 1.0f));
    EXPECT_EQ(lists["top_logprobs"][1].size(), 3u);  // two and the token itself, which is none of them
    EXPECT_EQ(lists["top_logprobs"][1]["b"], lists["token_logprobs"][1]);
  }
  EXPECT_EQ(complete({{"echo", true}, {"max_tokens", 0}})["choices"][0]["text"], "abc");
  EXPECT_EQ(complete({{"max_tokens", 0}})["choices"][0]["text"], "");
  const Json one = complete({{"echo", true}, {"max_tokens", 0}, {"logprobs", 0}, {"prompt", {68}}})["choices"][0];
  EXPECT_EQ(one["logprobs"]["token_logprobs"], Json::parse("[null]"));
}

TEST_F(ServiceTest, EndTokensHaveAnEntryButNoText) {
  // lm-eval drops the entry of the generated token, so there must be one even if that is the end token.
  Json bias;
  bias[std::to_string(kEnd)] = 100;
  const Json choice =
      complete({{"echo", true}, {"max_tokens", 1}, {"logprobs", 1}, {"logit_bias", bias}})["choices"][0];
  EXPECT_EQ(choice["text"], "abc");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].size(), 4u);
  // Raw: the bias made it the likeliest token, and its log probability is what it was.
  EXPECT_EQ(choice["logprobs"]["token_logprobs"][3],
            static_cast<double>(fake_logit(hash_history({68, 69, 70}), kEnd) - 1.0f));
}

TEST_F(ServiceTest, OffsetsAreThoseOfTheTokensInTheText) {
  for (const bool echo : {false, true}) {
    const Json choice =
        complete({{"echo", echo}, {"max_tokens", 20}, {"logprobs", 0}, {"ignore_eos", true}})["choices"][0];
    const std::string text = choice["text"];
    const Json& lists = choice["logprobs"];
    for (std::size_t i = 0; i < lists["tokens"].size(); ++i) {
      const std::string token = lists["tokens"][i];
      if (token.size() > 2) continue;  // a special token, which is not in the text
      EXPECT_EQ(text.substr(lists["text_offset"][i].get<std::size_t>(), token.size()), token);
    }
  }
}

TEST_F(ServiceTest, AStopStringCutsTheGeneratedTextAndNotTheEcho) {
  const std::string free = complete({{"max_tokens", 12}, {"ignore_eos", true}})["choices"][0]["text"];
  const std::string stop = free.substr(5, 2);
  const Json choice =
      complete({{"max_tokens", 12}, {"ignore_eos", true}, {"echo", true}, {"stop", {"ab", stop}}})["choices"][0];
  EXPECT_EQ(choice["text"], "abc" + free.substr(0, free.find(stop)));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST_F(ServiceTest, BestOfReturnsTheLikeliest) {
  const Json body = {{"max_tokens", 6}, {"temperature", 1}, {"seed", 3}, {"ignore_eos", true}, {"logprobs", 0}};
  const auto mean = [](const Json& choice) {
    double sum = 0;
    for (const Json& value : choice["logprobs"]["token_logprobs"]) sum += value.get<double>();
    return sum / static_cast<double>(choice["logprobs"]["token_logprobs"].size());
  };
  Json all = body, best = body;
  all["n"] = 5;
  best["n"] = 2;
  best["best_of"] = 5;
  std::vector<double> means;
  const Json five = complete(all);
  for (const Json& choice : five["choices"]) means.push_back(mean(choice));
  std::sort(means.rbegin(), means.rend());
  const Json answer = complete(best);
  ASSERT_EQ(answer["choices"].size(), 2u);
  EXPECT_EQ(mean(answer["choices"][0]), means[0]);
  EXPECT_EQ(mean(answer["choices"][1]), means[1]);
  EXPECT_EQ(answer["choices"][1]["index"], 1);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 30);
  best.erase("logprobs");  // they are needed, but nobody asked for them
  EXPECT_TRUE(complete(best)["choices"][0]["logprobs"].is_null());
}

TEST_F(ServiceTest, TokensMayBeNamedByTheirIds) {
  const Json lists = complete({{"max_tokens", 2},
                               {"logprobs", 1},
                               {"return_tokens_as_token_ids", true},
                               {"return_token_ids", true}})["choices"][0];
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(lists["logprobs"]["tokens"][i], "token_id:" + lists["token_ids"][i].dump());
  }
  const Json entry = chat({{"max_tokens", 1},
                           {"logprobs", true},
                           {"return_tokens_as_token_ids", true},
                           {"return_token_ids", true}})["choices"][0];
  EXPECT_EQ(entry["logprobs"]["content"][0]["token"], "token_id:" + entry["token_ids"][0].dump());
}

TEST_F(ServiceTest, BodiesOfRealClientsAreTaken) {
  // lm-eval, guidellm, vLLM's benchmark, openai-python with everything it knows.
  const char* const bodies[] = {
      R"({"model": "m", "prompt": [[68, 69]], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": true})",
      R"({"model": "m", "prompt": [[68], [69]], "max_tokens": 4, "temperature": 0, "stop": ["a", "\n\n"], "seed": 1234,
          "until": ["x"], "do_sample": false, "top_k": 0})",
      R"({"model": "m", "prompt": "x", "stream": false, "stream_options": {"include_usage": true}, "max_tokens": 3,
          "stop": null, "ignore_eos": true})",
      R"({"model": "m", "prompt": "x", "repetition_penalty": 1.0, "max_tokens": 3, "logprobs": null})",
      R"({"model": null, "prompt": "x", "best_of": null, "echo": null, "frequency_penalty": null, "logit_bias": null,
          "logprobs": null, "max_tokens": null, "n": null, "presence_penalty": null, "seed": null, "stop": null,
          "stream": null, "stream_options": null, "suffix": null, "temperature": null, "top_p": null, "user": null,
          "top_k": null, "min_p": null, "min_tokens": null, "ignore_eos": null, "stop_token_ids": null, "priority": null,
          "choices": null, "guided_choice": null, "structured_outputs": null, "skip_special_tokens": null,
          "add_special_tokens": null, "return_token_ids": null, "return_tokens_as_token_ids": null,
          "response_format": null, "guided_json": null, "repetition_penalty": null})",
      R"({"prompt": "x", "max_tokens": 3, "cache_salt": "s", "request_id": "r", "prompt_logprobs": null, "user": 7,
          "bad_words": [], "use_beam_search": false, "length_penalty": 1.0, "nobody": {"knows": ["this"]}})",
      R"({"prompt": "x", "max_tokens": 3.0, "n": 2.0, "seed": -7, "suffix": "", "best_of": 2, "top_k": -1, "min_tokens": 2})"};
  for (const char* text : bodies) {
    const Answer answer = post("/v1/completions", Json::parse(text));
    EXPECT_EQ(answer.status, 200) << text << answer.body.dump();
  }
  const char* const chats[] = {
      R"({"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "q"}]}],
          "max_completion_tokens": 2, "stream_options": {"include_usage": true}})",
      R"({"messages": [{"role": "system", "content": null}], "max_tokens": 2, "top_logprobs": null, "logprobs": null})",
      R"({"messages": [{"role": "user", "content": "xq", "name": "n"}], "response_format": {"type": "text"},
          "top_logprobs": 0, "n": 2, "max_completion_tokens": 2, "tools": [], "tool_choice": "none", "functions": null, "echo": false,
          "modalities": ["text"], "add_generation_prompt": true, "chat_template_kwargs": {}})"};
  for (const char* text : chats) {
    const Answer answer = post("/v1/chat/completions", Json::parse(text));
    // A prompt without a token is refused by the engine; the demo's tokenizer adds one.
    EXPECT_EQ(answer.status, 200) << text << answer.body.dump();
  }
}

struct Refusal {
  const char *fields, *message;
};

TEST_F(ServiceTest, WrongFieldsAreNamedForBothUrls) {
  const Refusal cases[] = {
      {R"({"temperature": "hot"})", R"(temperature: expected a number, got "hot")"},
      {R"({"temperature": -0.5})", "temperature is -0.5; it must be from 0 to 100"},
      {R"({"temperature": 1e300})", "temperature is 3.4028235e+38; it must be from 0 to 100"},
      {R"({"top_p": true})", "top_p: expected a number, got true"},
      {R"({"top_p": 0})", "top_p is 0; it must be above 0 and at most 1"},
      {R"({"top_p": 1.5})", "top_p is 1.5; it must be above 0 and at most 1"},
      {R"({"top_k": 1.5})", "top_k: expected an integer, got 1.5"},
      {R"({"top_k": -2})", "top_k is -2; it must be from -1 to 2147483647"},
      {R"({"min_p": -1})", "min_p is -1; it must be from 0 to 1"},
      {R"({"min_p": "a"})", R"(min_p: expected a number, got "a")"},
      {R"({"repetition_penalty": 0})", "repetition_penalty is 0; it must be above 0"},
      {R"({"repetition_penalty": "1"})", R"(repetition_penalty: expected a number, got "1")"},
      {R"({"frequency_penalty": -2.5})", "frequency_penalty is -2.5; it must be from -2 to 2"},
      {R"({"presence_penalty": 3e9})", "presence_penalty is 3000000000; it must be from -2 to 2"},
      {R"({"presence_penalty": []})", "presence_penalty: expected a number, got []"},
      {R"({"n": 0})", "n is 0; it must be from 1 to 128"},
      {R"({"n": 129})", "n is 129; it must be from 1 to 128"},
      {R"({"n": "2"})", R"(n: expected an integer, got "2")"},
      {R"({"max_tokens": -1})", "max_tokens is -1; it must be from 0 to 2147483647"},
      {R"({"max_tokens": 1e12})", "max_tokens is 1000000000000.0; it must be from 0 to 2147483647"},
      {R"({"max_tokens": 2, "min_tokens": 3})", "min_tokens is 3; it must be from 0 to max_tokens (2)"},
      {R"({"min_tokens": -1})", "min_tokens is -1; it must be from 0 to 2147483647"},
      {R"({"seed": 1.5})", "seed: expected an integer of 64 bits, got 1.5"},
      {R"({"seed": 1e19})", "seed: expected an integer of 64 bits, got 1e+19"},
      {R"({"seed": "s"})", R"(seed: expected an integer of 64 bits, got "s")"},
      {R"({"stop": 7})", "stop: expected a string or a list of strings, got 7"},
      {R"({"stop": ["a", null]})", "stop: expected a string or a list of strings, got null"},
      {R"({"stop": ""})", "stop has an empty string; leave it out"},
      {R"({"stop_token_ids": 5})", "stop_token_ids: expected a list of token ids, got 5"},
      {R"({"stop_token_ids": [5, "a"]})", R"(stop_token_ids: expected token ids, got "a")"},
      {R"({"stop_token_ids": [97]})", "stop_token_ids: token id 97 is not in the vocabulary; ids are from 0 to 96"},
      {R"({"stop_token_ids": [1e30]})", "stop_token_ids: expected token ids, got 1e+30"},
      {R"({"logit_bias": [1]})", "logit_bias: expected an object of token id and bias, got [1]"},
      {R"({"logit_bias": {"a": 1}})", "logit_bias: 'a' is not a token id"},
      {R"({"logit_bias": {"5x": 1}})", "logit_bias: '5x' is not a token id"},
      {R"({"logit_bias": {"99999999999": 1}})", "logit_bias: '99999999999' is not a token id"},
      {R"({"logit_bias": {"97": 1}})", "logit_bias: token id 97 is not in the vocabulary; ids are from 0 to 96"},
      {R"({"logit_bias": {"5": "b"}})", R"(logit_bias: expected numbers, got "b")"},
      {R"({"logit_bias": {"5": 100.5}})", "logit_bias of token 5 is 100.5; it must be from -100 to 100"},
      {R"({"ignore_eos": 1})", "ignore_eos: expected true or false, got 1"},
      {R"({"skip_special_tokens": "no"})", R"(skip_special_tokens: expected true or false, got "no")"},
      {R"({"return_token_ids": 1})", "return_token_ids: expected true or false, got 1"},
      {R"({"return_tokens_as_token_ids": "x"})", R"(return_tokens_as_token_ids: expected true or false, got "x")"},
      {R"({"priority": 1e10})", "priority is 10000000000.0; it must be from -2147483648 to 2147483647"},
      {R"({"priority": "high"})", R"(priority: expected an integer, got "high")"},
      {R"({"group": 17})", "group: expected a string, got 17"},
      {R"({"choices": ["x", 1]})", "choices[1]: expected a text or a list of token ids, got 1"},
      {R"({"guided_json": "{}"})",
       "guided_json is not supported; leave it out, or list all possible answers in 'choices'"},
      {R"({"guided_regex": "a"})",
       "guided_regex is not supported; leave it out, or list all possible answers in 'choices'"},
      {R"({"guided_grammar": "a"})",
       "guided_grammar is not supported; leave it out, or list all possible answers in 'choices'"},
      {R"({"response_format": {"type": "json_object"}})",
       "response_format: type 'json_object' is not supported; use 'text', or the field 'choices'"},
      {R"({"response_format": "text"})", R"(response_format: expected a JSON object, got "text")"},
  };
  for (const char* url : {"/v1/completions", "/v1/chat/completions"}) {
    for (const Refusal& test : cases) EXPECT_EQ(refusal(url, Json::parse(test.fields)), test.message) << url;
  }
  EXPECT_EQ(refusal("/v1/completions", {{"stop", std::vector<std::string>(1025, "x")}}),
            "stop has 1025 texts; at most 1024 are allowed");
}

TEST_F(ServiceTest, WrongFieldsOfCompletionsAreNamed) {
  const Refusal cases[] = {
      {R"({"prompt": 5})", "prompt: expected text or a list of token ids, got 5"},
      {R"({"prompt": []})", "prompt is an empty list; it must contain texts or token ids"},
      {R"({"prompt": [[68], "a", 5]})", "prompt: expected text or a list of token ids, got 5"},
      {R"({"prompt": [68, "a"]})", R"(prompt: expected token ids, got "a")"},
      {R"({"prompt": [68, -1]})", "prompt: expected token ids, got -1"},
      {R"({"prompt": [68, 97]})", "the prompt has token id 97; ids are from 0 to 96"},
      {R"({"prompt": [[]]})", "the prompt is empty; it must have at least one token"},
      {R"({"prompt": null})", "prompt is missing"},
      {R"({"echo": "yes"})", R"(echo: expected true or false, got "yes")"},
      {R"({"logprobs": 21})", "logprobs is 21; it must be from 0 to 20"},
      {R"({"logprobs": true})", "logprobs: expected an integer, got true"},
      {R"({"suffix": "end"})",
       "suffix is not supported: this model continues a text and cannot insert into one; leave it out"},
      {R"({"suffix": 5})", "suffix: expected a string, got 5"},
      {R"({"n": 3, "best_of": 2})", "best_of is 2 and n is 3; best_of must be at least n"},
      {R"({"best_of": 500})", "best_of is 500; it must be from 1 to 128"},
      {R"({"add_special_tokens": 0})", "add_special_tokens: expected true or false, got 0"},
  };
  for (const Refusal& test : cases) EXPECT_EQ(refusal("/v1/completions", Json::parse(test.fields)), test.message);
}

TEST_F(ServiceTest, WrongFieldsOfChatAreNamed) {
  const Refusal cases[] = {
      {R"({"messages": "hi"})", R"(messages: expected a list of at least one message, got "hi")"},
      {R"({"messages": []})", "messages: expected a list of at least one message, got []"},
      {R"({"messages": ["hi"]})", R"(messages: a message: expected a JSON object, got "hi")"},
      {R"({"messages": [{"content": "hi"}]})", "messages: a message has no role"},
      {R"({"messages": [{"role": 5, "content": "hi"}]})", "role: expected a string, got 5"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "content: expected a string, got 5"},
      {R"({"messages": [{"role": "user", "content": [5]}]})", "messages: content part: expected a JSON object, got 5"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
       R"(messages: content part: expected type "text", got {"type":"image_url"})"},
      {R"({"messages": null})", "messages is missing"},
      {R"({"top_logprobs": 2})", "top_logprobs is 2, but logprobs is not true; set it too"},
      {R"({"top_logprobs": 21, "logprobs": true})", "top_logprobs is 21; it must be from 0 to 20"},
      {R"({"logprobs": 5})", "logprobs: expected true or false, got 5"},
      {R"({"max_completion_tokens": -1})", "max_completion_tokens is -1; it must be from 0 to 2147483647"},
  };
  for (const Refusal& test : cases) EXPECT_EQ(refusal("/v1/chat/completions", Json::parse(test.fields)), test.message);
}

TEST_F(ServiceTest, MaxCompletionTokensComesBeforeMaxTokens) {
  EXPECT_EQ(chat({{"max_tokens", 9}, {"max_completion_tokens", 3}, {"ignore_eos", true}})["usage"]["completion_tokens"],
            3);
  EXPECT_EQ(chat({{"max_tokens", 4}, {"ignore_eos", true}})["usage"]["completion_tokens"], 4);
}

TEST_F(ServiceTest, TinyTemperaturesAreGreedy) {
  // Divided by it, every positive logit would be infinite, and the lowest id would win.
  const auto text = [&](double temperature) -> std::string {
    return complete({{"max_tokens", 8}, {"ignore_eos", true}, {"temperature", temperature}})["choices"][0]["text"];
  };
  for (const double temperature : {1e-6, 1e-38, 1e-45, 1e-300}) EXPECT_EQ(text(temperature), text(0)) << temperature;
  EXPECT_NE(text(1e-5), text(0));  // the fake device draws another token when it is told a temperature
}

TEST_F(ServiceTest, MoreLogprobsThanALineHoldsAreRefused) {
  ServiceInfo info;
  info.max_model_len = 100'000;
  info.chat_template = [](const ChatInput&) { return ChatPrompt{{{"xq", true}}, true}; };
  service = std::make_unique<Service>(*engine, tokenizer(), info);
  const std::string tail =
      "with 20 alternatives; at most 3000000 values are allowed: lower max_tokens, n or the "
      "alternatives, or send several bodies";
  EXPECT_EQ(refusal("/v1/completions", {{"n", 128}, {"logprobs", 20}, {"max_tokens", 2000}}),
            "the body asks for log probabilities of 2000 tokens in each of 128 choices, " + tail);
  EXPECT_EQ(refusal("/v1/completions", {{"prompt", std::vector<std::vector<int>>(200, std::vector<int>(900, 1))},
                                        {"echo", true},
                                        {"logprobs", 20},
                                        {"max_tokens", 0}}),
            "the body asks for log probabilities of 900 tokens in each of 200 choices, " + tail);
  EXPECT_EQ(
      refusal("/v1/chat/completions", {{"n", 128}, {"logprobs", true}, {"top_logprobs", 20}, {"max_tokens", 2000}}),
      "the body asks for log probabilities of 2000 tokens in each of 128 choices, " + tail);
  // Guided ones are as long as the longest choice, whatever max_tokens leaves room for.
  for (const char* url : {"/v1/completions", "/v1/chat/completions"}) {
    Json guided = {{"n", 128}, {"choices", {"x", "q"}}, {"logprobs", 20}, {"temperature", 0}};
    if (url == std::string("/v1/chat/completions")) guided.update({{"logprobs", true}, {"top_logprobs", 20}});
    EXPECT_EQ(refusal(url, guided), "accepted") << url;
    guided["choices"] = {"x", std::string(1500, 'q')};
    EXPECT_EQ(refusal(url, guided),
              "the body asks for log probabilities of 1501 tokens in each of 128 choices, " + tail);
  }
}

TEST_F(ServiceTest, ScoresCompletionsBehindTheirPrompt) {
  const Answer answer = post("/v1/score", {{"prompt", kPrompt}, {"completions", {{71, 72}, {73}, Json::array()}}});
  ASSERT_EQ(answer.status, 200) << answer.body.dump();
  const Json list = Json::parse(answer.body.dump())["completions"];
  ASSERT_EQ(list.size(), 3u);
  const double first = fake_logit(hash_history({68, 69, 70}), 71) - 1.0f;
  const double second = fake_logit(hash_history({68, 69, 70, 71}), 72) - 1.0f;
  EXPECT_EQ(list[0]["token_logprobs"], Json({first, second}));
  EXPECT_EQ(list[0]["logprob"], first + second);
  EXPECT_EQ(list[0]["token_ids"], Json({71, 72}));
  EXPECT_EQ(list[0]["ranks"].size(), 2u);
  EXPECT_EQ(list[1]["token_ids"], Json({73}));
  EXPECT_EQ(list[2], Json::parse(R"({"logprob": 0.0, "token_ids": [], "token_logprobs": [], "ranks": [],
                                     "is_greedy": true})"));
}

TEST_F(ServiceTest, ABadCompletionIsNamedBeforeAnyIsScored) {
  std::vector<std::vector<int>> completions(40, {71});
  completions[39] = {1000};
  EXPECT_THAT(refusal("/v1/score", {{"completions", completions}}),
              HasSubstr("completions[39], with the prompt before it: the prompt has token id 1000"));
  EXPECT_THAT(refusal("/v1/score", {{"prompt", {1000}}, {"completions", Json::array()}}),
              HasSubstr("the prompt has token id 1000"));
  EXPECT_EQ(engine->stats().num_steps, 0u);
}

TEST_F(ServiceTest, ABodyMayAskForSoManyScores) {
  EXPECT_EQ(refusal("/v1/score", {{"completions", std::vector<std::vector<int>>(16385, {71})}}),
            "the body asks for 16385 completions; at most 16384 are allowed: send several bodies");
  // Before the engine sees them, and as soon as they are too many.
  EXPECT_EQ(
      refusal("/v1/score", {{"completions", std::vector<std::vector<int>>(4000, std::vector<int>(1000, 71))}}),
      "completions: the first 3001 of 4000 have 3001000 tokens, but at most 3000000 are scored for one body: send "
      "several bodies");
}

TEST_F(ServiceTest, ChoiceLogprobsAreThoseOfAScore) {
  const Json choices = {"x", {71, 72}, "xq"};
  const Json body = {{"prompt", kPrompt}, {"choices", choices}, {"choice_logprobs", true}, {"n", 2}, {"seed", 1}};
  const Json answer = complete(body);
  Json plain = body;
  plain.erase("choice_logprobs");
  const Json without = complete(plain);
  ASSERT_EQ(answer["choices"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& list = answer["choices"][i]["choice_logprobs"];
    ASSERT_EQ(list.size(), 3u);
    Json completions = Json::array();
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(list[j]["choice"], choices[j]);
      completions.push_back(list[j]["token_ids"]);
    }
    EXPECT_EQ(completions[1], choices[1]);
    const Answer scores = post("/v1/score", {{"prompt", kPrompt}, {"completions", completions}});
    for (std::size_t j = 0; j < 3; ++j) {
      Json entry = list[j];
      entry.erase("choice");
      EXPECT_EQ(entry, Json::parse(scores.body["completions"][j].dump()));
    }
    EXPECT_EQ(answer["choices"][i]["text"], without["choices"][i]["text"]);
    EXPECT_FALSE(without["choices"][i].contains("choice_logprobs"));
  }
  const Json dialogue = chat({{"choices", {"x", "q"}}, {"choice_logprobs", true}});
  ASSERT_EQ(dialogue["choices"][0]["choice_logprobs"].size(), 2u);
  // 2605 lists of one token for each of 128 answers: each entry counts as 9 values.
  Json many = Json::array();
  for (int i = 0; i < 2605; ++i) many.push_back({71});
  EXPECT_EQ(refusal("/v1/completions", {{"choice_logprobs", true}, {"choices", many}, {"n", 128}}),
            "choice_logprobs: the log probabilities of 2605 choices after each of 1 prompts, for each of n = 128 "
            "answers, are more than the 3000000 values that one body may ask for; lower n, send several bodies, or use "
            "/v1/score, which returns them once");
  EXPECT_EQ(refusal("/v1/completions", {{"choice_logprobs", true}}),
            "choice_logprobs is true, but there are no choices; name them in 'choices', or leave it out");
  EXPECT_EQ(refusal("/v1/chat/completions", {{"choice_logprobs", 1}}),
            "choice_logprobs: expected true or false, got 1");
}

TEST_F(ServiceTest, AChatWithoutATemplateIsRefused) {
  ServiceInfo info;
  info.max_model_len = 64;
  service = std::make_unique<Service>(*engine, tokenizer(), info);
  EXPECT_EQ(refusal("/v1/chat/completions", Json::object()), "this pipeline has no chat template");
}

TEST_F(ServiceTest, StatusesTellWhatKindOfFailureItIs) {
  const auto error_of = [&](const std::string& url, const Json& body, int status) {
    const Answer answer = post(url, body);
    EXPECT_EQ(answer.status, status) << answer.body.dump();
    return Json::parse(answer.body["error"].dump());
  };
  EXPECT_TRUE(error_of("/v1/completions", {{"prompt", kPrompt}, {"top_p", 2}}, 400)["code"].is_null());
  EXPECT_EQ(error_of("/v1/completions", {{"prompt", std::vector<int>(65, 68)}}, 400)["code"],
            "context_length_exceeded");
  const Json unknown = error_of("/v1/nothing", Json::object(), 404);
  EXPECT_EQ(unknown["code"], "not_found");
  EXPECT_THAT(unknown["message"].get<std::string>(), ::testing::HasSubstr("is not one of /v1/completions, /v1/chat"));
  ASSERT_TRUE(engine->drain(std::chrono::steady_clock::time_point::max()));
  EXPECT_EQ(error_of("/v1/completions", {{"prompt", kPrompt}}, 503)["code"], "unavailable");
}

TEST_F(ServiceTest, AnOverloadedEngineIsStatus429WithTheTimeToWait) {
  EngineHooks hooks;
  hooks.queue.max_requests = 0;
  Engine full(world->parts(), world->limits, ModelInfo{kVocab, {}}, tokenizer(), hooks);
  Service busy(full, tokenizer(), service->info());
  Answer answer;
  busy.handle("/v1/completions", {{"prompt", kPrompt}}, [&](Answer refused) { answer = std::move(refused); });
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.body["error"]["code"], "overloaded");
  EXPECT_GE(answer.retry_after_s.value_or(0), 1);
}

TEST(ErrorAnswer, EveryCodeHasItsStatus) {
  EXPECT_EQ(status_of(ErrorCode::kInvalid), 400);
  EXPECT_EQ(status_of(ErrorCode::kTooLarge), 400);
  EXPECT_EQ(status_of(ErrorCode::kNotFound), 404);
  EXPECT_EQ(status_of(ErrorCode::kOverloaded), 429);
  EXPECT_EQ(status_of(ErrorCode::kInternal), 500);
  EXPECT_EQ(status_of(ErrorCode::kUnavailable), 503);
  EXPECT_EQ(status_of(ErrorCode::kDeadlineExceeded), 504);
  EXPECT_EQ(error_answer(Error("slow", ErrorCode::kDeadlineExceeded)).body["error"]["type"], "server_error");
  EXPECT_EQ(error_answer(Error("full", ErrorCode::kOverloaded)).body["error"]["type"], "rate_limit_error");
}

}  // namespace
}  // namespace mortise::test
