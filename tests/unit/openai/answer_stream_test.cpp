// Streams: their chunks say what the whole answer says, and one that breaks goes on after any event, on the same
// bytes.
// Covers: runtime/openai/{answers,event_id,work}
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "error.hpp"
#include "openai/answer_stream.hpp"
#include "service_fixture.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;

struct Event {
  std::string id;
  std::string data;
  bool operator==(const Event&) const = default;
};

std::vector<Event> parse(const std::string& text) {
  std::vector<Event> events;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << "half an event: " << text.substr(at);
    Event event;
    std::string rest = text.substr(at, end - at);
    if (rest.starts_with("id: ")) {
      const std::size_t line = rest.find('\n');
      event.id = rest.substr(4, line - 4);
      rest = rest.substr(line + 1);
    }
    EXPECT_TRUE(rest.starts_with("data: ")) << rest;
    event.data = rest.substr(6);
    events.push_back(std::move(event));
    at = end + 2;
  }
  return events;
}

// What the chunks of one choice say together, in the shape of a whole answer's choice.
void join(const Json& chunk, Json& choice) {
  const auto append = [](Json& to, const Json& lists) {
    if (lists.is_null()) return;
    for (const auto& [name, list] : lists.items()) {
      if (list.is_null()) {
        to[name] = nullptr;
        continue;
      }
      Json& all = to[name];
      if (all.is_null()) all = Json::array();
      all.insert(all.end(), list.begin(), list.end());
    }
  };
  for (const auto& [name, value] : chunk.items()) {
    if (name == "logprobs") {
      append(choice["logprobs"], value);
    } else if (name == "token_ids") {
      append(choice, {{"token_ids", value}});
    } else if (name == "text") {
      choice[name] = choice.value(name, "") + value.get<std::string>();
    } else if (name == "delta") {
      Json& message = choice["message"];
      if (value.contains("role")) {
        EXPECT_FALSE(message.contains("role")) << "the role is said once";
        message["role"] = value["role"];
      }
      if (value.contains("content"))
        message["content"] = message.value("content", "") + value["content"].get<std::string>();
    } else if (!value.is_null()) {
      EXPECT_TRUE(!choice.contains(name) || choice[name] == value) << name;
      choice[name] = value;
    }
  }
}

struct Joined {
  std::map<int, Json> choices;
  std::vector<Json> usages;
  Json head;  // without choices and usage
};

Joined join(const std::vector<Event>& events) {
  Joined joined;
  EXPECT_EQ(events.back().data, "[DONE]");
  for (const Event& event : events) {
    if (event.data == "[DONE]") continue;
    Json json = Json::parse(event.data);
    for (const Json& choice : json["choices"]) join(choice, joined.choices[choice["index"]]);
    if (json.contains("usage") && !json["usage"].is_null()) joined.usages.push_back(json["usage"]);
    json.erase("choices");
    json.erase("usage");
    EXPECT_TRUE(joined.head.is_null() || joined.head == json) << "two heads: " << json;
    joined.head = std::move(json);
  }
  return joined;
}

class StreamTest : public ServiceTest {
 protected:
  // All events. `patient`: they are taken when the whole answer is there, else whenever there is something.
  std::vector<Event> stream(const std::string& url, Json body, const std::optional<std::string>& last_id = {},
                            bool patient = false) {
    body["stream"] = true;
    if (url == kCompletions) body.emplace("prompt", kPrompt);
    if (url == kChat) body.emplace("messages", Json::parse(R"([{"role": "user", "content": "xq"}])"));
    struct Bell {
      std::mutex mutex;
      std::condition_variable changed;
      int num_rung = 0;
    };
    const auto bell = std::make_shared<Bell>();  // a call of `wake` may still run when the stream has ended
    const auto answers = service->stream(url, body, last_id, [bell] {
      const std::lock_guard lock(bell->mutex);
      ++bell->num_rung;
      bell->changed.notify_one();
    });
    if (patient) wait_until_idle();
    std::string text;
    while (answers->take(text) == StreamState::kOpen) {
      std::unique_lock lock(bell->mutex);
      bell->changed.wait(lock, [&] { return bell->num_rung > 0; });
      bell->num_rung = 0;
    }
    return parse(text);
  }
  void wait_until_idle() {
    while (engine->stats().num_running + engine->stats().num_waiting > 0) std::this_thread::yield();
  }
  std::string refused(const std::string& url, const Json& body, const std::optional<std::string>& last_id = {}) {
    try {
      stream(url, body, last_id);
      return "accepted";
    } catch (const Error& error) {
      code = error.code();
      return error.what();
    }
  }
  // A service of the same engine whose pipeline is another.
  void become(const std::string& fingerprint) {
    ServiceInfo info = service->info();
    info.system_fingerprint = fingerprint;
    service = std::make_unique<Service>(*engine, tokenizer(), info);
  }
  ErrorCode code = ErrorCode::kInternal;
};

Json without(Json json, const char* name) {
  json.erase(name);
  return json;
}

const std::pair<const char*, Json> kBodies[] = {
    {kCompletions, {{"max_tokens", 20}}},
    {kCompletions, {{"max_tokens", 0}, {"echo", true}}},
    {kCompletions, {{"max_tokens", 12}, {"echo", true}, {"logprobs", 2}, {"seed", 3}, {"temperature", 1}}},
    {kCompletions, {{"max_tokens", 15}, {"n", 3}, {"seed", 9}, {"temperature", 1}, {"return_token_ids", true}}},
    {kCompletions, {{"max_tokens", 9}, {"prompt", {{3, 4}, {5, 6, 7}}}, {"n", 2}, {"seed", 1}, {"temperature", 2}}},
    {kCompletions, {{"max_tokens", 30}, {"stop", {"e", "7", "Bx"}}, {"ignore_eos", true}, {"logprobs", 0}}},
    {kChat, {{"max_tokens", 20}, {"ignore_eos", true}}},
    {kChat, {{"max_tokens", 0}}},
    {kChat, {{"max_tokens", 25}, {"n", 2}, {"logprobs", true}, {"top_logprobs", 2}, {"seed", 7}, {"temperature", 1}}},
    {kChat, {{"max_tokens", 40}, {"choices", {{68, 69, 70}, {68, 69, 71}, {5}}}, {"return_token_ids", true}}},
};

TEST_F(StreamTest, ChunksSayWhatTheWholeAnswerSays) {
  for (const auto& [url, body] : kBodies) {
    const Json whole = url == kChat ? chat(body) : complete(body);
    for (const bool patient : {false, true}) {
      const Joined joined = join(stream(url, body, {}, patient));
      EXPECT_EQ(joined.head["object"], url == kChat ? "chat.completion.chunk" : "text_completion");
      EXPECT_EQ(joined.head["model"], "fake");
      EXPECT_EQ(joined.head["system_fingerprint"], "mortise-test");
      ASSERT_EQ(joined.choices.size(), whole["choices"].size()) << body;
      for (const Json& choice : whole["choices"]) {
        Json got = joined.choices.at(choice["index"]);
        Json expected = choice;
        if (url == kChat) {
          expected["message"].erase("refusal");
          // Without a token there is no list of log probabilities, and no text.
          if (!got["message"].contains("content")) got["message"]["content"] = "";
        }
        if (expected["logprobs"].is_null()) expected.erase("logprobs"), got.erase("logprobs");
        // Without a given seed each body draws its own, and greedy sampling does not look.
        if (!body.contains("seed")) expected.erase("seed"), got.erase("seed");
        EXPECT_EQ(got, expected) << body;
      }
    }
  }
}

TEST_F(StreamTest, EventsHaveAnIdAndTheStreamEndsWithDone) {
  const std::vector<Event> events = stream(kChat, {{"max_tokens", 3}, {"ignore_eos", true}});
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.back(), (Event{"", "[DONE]"}));
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_FALSE(events[i].id.empty());
    EXPECT_EQ(events[i].id.find_first_of(" \r\n"), std::string::npos);
    EXPECT_TRUE(i == 0 || events[i].id != events[i - 1].id);
  }
  EXPECT_EQ(Json::parse(events.front().data)["choices"][0]["delta"],
            Json::parse(R"({"role":"assistant","content":""})"));
}

TEST_F(StreamTest, UsageIsSaidWhenItIsAskedFor) {
  const Json body = {{"max_tokens", 6}, {"ignore_eos", true}};
  EXPECT_TRUE(join(stream(kCompletions, body)).usages.empty());

  Json at_the_end = body;
  at_the_end["stream_options"] = {{"include_usage", true}};
  const std::vector<Event> events = stream(kCompletions, at_the_end);
  const Json last = Json::parse(events[events.size() - 2].data);
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(without(last["usage"], "prompt_tokens_details"),
            Json::parse(R"({"prompt_tokens":3,"completion_tokens":6,"total_tokens":9})"));
  EXPECT_TRUE(last["usage"]["prompt_tokens_details"]["cached_tokens"].is_number());
  EXPECT_TRUE(Json::parse(events.front().data)["usage"].is_null());
  EXPECT_EQ(join(events).usages.size(), 1u);

  Json always = body;
  always["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  const std::vector<Json> usages = join(stream(kCompletions, always)).usages;
  ASSERT_GE(usages.size(), 2u);
  EXPECT_EQ(usages.back()["completion_tokens"], 6);
  for (std::size_t i = 1; i < usages.size(); ++i) {
    EXPECT_GE(usages[i]["completion_tokens"], usages[i - 1]["completion_tokens"]);
  }
}

TEST_F(StreamTest, AnEmptyPromptIsRefusedBeforeAnythingReadsIt) {
  EXPECT_THAT(refused(kCompletions, {{"prompt", ""}, {"add_special_tokens", false}}),
              HasSubstr("the prompt is empty; it must have at least one token"));
}

TEST_F(StreamTest, EventIdsCanBeLeftOut) {
  const Json body = {{"max_tokens", 6}, {"ignore_eos", true}, {"seed", 1}};
  Json without_ids = body;
  without_ids["stream_options"] = {{"include_event_ids", false}};
  const std::vector<Event> events = stream(kCompletions, without_ids);
  for (const Event& event : events) EXPECT_EQ(event.id, "");
  EXPECT_EQ(join(events).choices, join(stream(kCompletions, body)).choices);
}

// The stream from the event after `id` on; usage of prompts depends on what else has run, so it is left out.
TEST_F(StreamTest, GoesOnBehindEveryEventWithTheSameBytes) {
  for (const auto& [url, body] : kBodies) {
    const std::vector<Event> whole = stream(url, body);
    for (std::size_t at = 0; at + 1 < whole.size(); ++at) {
      const std::vector<Event> rest = stream(url, body, whole[at].id);
      // Chunks may be cut elsewhere, so what counts is what they say together with those that the client has.
      std::vector<Event> both(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      both.insert(both.end(), rest.begin(), rest.end());
      const Joined expected = join(whole), got = join(both);
      EXPECT_EQ(got.choices, expected.choices) << body << " after event " << at;
      EXPECT_EQ(got.head, expected.head);
    }
  }
}

TEST_F(StreamTest, ADrawnSeedIsInTheId) {
  const Json body = {{"max_tokens", 20}, {"temperature", 1.5}, {"prompt", {{3, 4}, {5}}}, {"n", 2}};
  const std::vector<Event> whole = stream(kCompletions, body);
  EXPECT_NE(join(stream(kCompletions, body)).choices, join(whole).choices);  // another stream has another seed
  std::vector<Event> both = {whole.front()};
  for (Event& event : stream(kCompletions, body, whole.front().id)) both.push_back(std::move(event));
  EXPECT_EQ(join(both).choices, join(whole).choices);
  EXPECT_NE(join(whole).choices[0]["seed"], join(whole).choices[2]["seed"]);
}

TEST_F(StreamTest, TheTokensThatAClientHasMayComeAlong) {
  const Json body = {
      {"max_tokens", 30}, {"ignore_eos", true}, {"return_token_ids", true}, {"temperature", 1}, {"seed", 4}};
  const std::vector<Event> whole = stream(kChat, body);
  const Joined expected = join(whole);
  std::vector<std::int32_t> have;
  for (std::size_t at = 0; at + 1 < whole.size(); ++at) {
    const Json choice = Json::parse(whole[at].data)["choices"][0];
    if (choice.contains("token_ids"))
      for (const Json& id : choice["token_ids"]) have.push_back(id);
    for (const bool right : {true, false}) {
      Json again = body;
      again["resume_token_ids"] = have;
      if (!right && !have.empty()) again["resume_token_ids"][have.size() / 2] = 5;
      again["stream_options"] = {{"include_usage", true}};
      std::vector<Event> both(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      for (Event& event : stream(kChat, again, whole[at].id)) both.push_back(std::move(event));
      const Joined got = join(both);
      EXPECT_EQ(got.choices, expected.choices) << at;
      if (!right || have.empty() || at + 2 == whole.size()) continue;  // after the end nothing runs
      EXPECT_EQ(got.usages.back()["completion_tokens_details"]["accepted_prediction_tokens"], have.size());
      EXPECT_EQ(got.usages.back()["completion_tokens_details"]["rejected_prediction_tokens"], 0);
    }
  }
  EXPECT_EQ(have.size(), 30u);
}

// Of each token of a stream, whether it was drafted and stood.
std::vector<bool> drafted(const std::vector<Event>& events) {
  std::vector<bool> all;
  for (const Event& event : events) {
    if (event.data == "[DONE]") continue;
    const Json chunk = Json::parse(event.data);
    for (const Json& choice : chunk["choices"]) {
      if (!choice.contains("accepted_drafts")) continue;
      EXPECT_EQ(choice["accepted_drafts"].size(), choice["token_ids"].size());
      for (const bool one : choice["accepted_drafts"]) all.push_back(one);
    }
  }
  return all;
}

TEST_F(StreamTest, TellsWhichTokensWereDraftedWhenItIsAsked) {
  for (const char* url : {kCompletions, kChat}) {
    Json body = {{"max_tokens", 12}, {"ignore_eos", true}, {"return_token_ids", true}, {"seed", 4}, {"temperature", 1}};
    const std::vector<Event> plain = stream(url, body);
    EXPECT_TRUE(drafted(plain).empty());  // it depends on what else runs, so it is said to nobody who did not ask
    Json expected = join(plain).choices[0];
    body["return_draft_info"] = true;
    EXPECT_EQ(drafted(stream(url, body)), std::vector<bool>(12, false));
    // A prediction whose last token is wrong, so that the model's own comes in its place.
    body["prediction"] = {{"type", "tokens"}, {"token_ids", expected["token_ids"]}};
    body["prediction"]["token_ids"].erase(11);
    body["prediction"]["token_ids"].push_back((expected["token_ids"][11].get<int>() + 1) % kVocab);
    const std::vector<bool> flags = drafted(stream(url, body));
    ASSERT_EQ(flags.size(), 12u);
    EXPECT_GT(std::count(flags.begin(), flags.end(), true), 5);
    EXPECT_FALSE(flags[11]);  // true: a token counts as the draft that it replaced
    // A stream that resumes after an event has the flags of the later tokens only.
    body.erase("prediction");
    const std::vector<Event> whole = stream(url, body), rest = stream(url, body, whole.front().id);
    const std::vector<Event> have = {whole.front()};
    EXPECT_EQ(drafted(have).size() + drafted(rest).size(), 12u);
  }
}

TEST_F(StreamTest, DraftInfoIsForStreams) {
  const Json body = {{"return_draft_info", true}, {"max_tokens", 2}};
  const char* const what = "return_draft_info is for streams: which tokens were drafts depends on what else runs";
  EXPECT_THAT(refusal(kChat, body), HasSubstr(what));
  EXPECT_THAT(refusal(kCompletions, body), HasSubstr(what));
  EXPECT_EQ(refusal(kCompletions, {{"return_draft_info", false}, {"max_tokens", 2}}), "accepted");
  EXPECT_THAT(refused(kChat, {{"return_draft_info", 1}}), HasSubstr("return_draft_info: expected"));
}

TEST_F(StreamTest, ResumeTokensWithoutAStreamToResumeAreRefused) {
  const Json with_ids = {{"resume_token_ids", {5}}};
  const char* const what = "resume_token_ids are the tokens of a broken stream: they need stream and the header";
  EXPECT_THAT(refused(kChat, with_ids), HasSubstr(what));
  EXPECT_THAT(refusal(kChat, with_ids), HasSubstr(what));
  EXPECT_THAT(refusal(kCompletions, with_ids), HasSubstr(what));
  Json several = {{"n", 2}, {"max_tokens", 2}};
  const std::string id = stream(kChat, several).front().id;
  several["resume_token_ids"] = {5};
  EXPECT_THAT(refused(kChat, several, id),
              HasSubstr("it holds the tokens of one choice, but the body asks for several"));
  Json wrong = {{"max_tokens", 2}};
  const std::string wrong_id = stream(kChat, wrong).front().id;
  wrong["resume_token_ids"] = "abc";
  EXPECT_THAT(refused(kChat, wrong, wrong_id), HasSubstr("resume_token_ids: expected a list of token ids"));
  wrong["resume_token_ids"] = {kVocab};
  EXPECT_THAT(refused(kChat, wrong, wrong_id), HasSubstr("the prediction has token id 97; ids are from 0 to 96"));
}

TEST_F(StreamTest, AnIdOfAnotherStreamIsRefusedWithTheReason) {
  const Json body = {{"max_tokens", 4}, {"seed", 7}};
  const std::string id = stream(kCompletions, body).front().id;
  Json other = body;
  other["prompt"] = {3, 4};
  EXPECT_EQ(refused(kCompletions, other, id),
            "Last-Event-ID belongs to a stream with another prompt; repeat the body exactly, or leave out the header");
  other = body;
  other["seed"] = 8;
  EXPECT_EQ(refused(kCompletions, other, id),
            "seed is 8, but Last-Event-ID belongs to a stream with the seed 7; repeat the body exactly");
  other = body;
  other["n"] = 2;
  EXPECT_EQ(refused(kCompletions, other, id),
            "Last-Event-ID belongs to a stream of 1 choices, but this body asks for 2");
  EXPECT_EQ(code, ErrorCode::kInvalid);
  become("mortise-other");
  EXPECT_THAT(refused(kCompletions, body, id),
              HasSubstr("the stream was begun by a pipeline with the fingerprint 'mortise-test', but this one has "
                        "'mortise-other': its tokens may differ"));
  EXPECT_EQ(code, ErrorCode::kConflict);
}

TEST_F(StreamTest, WhatIsNoIdIsRefused) {
  const Json body = {{"max_tokens", 4}};
  const std::string id = stream(kCompletions, body).front().id;
  ASSERT_EQ(refused(kCompletions, body, id), "accepted");
  const std::string what = "Last-Event-ID is not the id of an event of this server";
  for (const std::string& text : {std::string(), std::string("17"), id + "~", id + "x", "2" + id.substr(1),
                                  std::string(20000, 'a'), id + "-1", id.substr(0, id.size() / 2)}) {
    EXPECT_THAT(refused(kCompletions, body, text), HasSubstr(what)) << text.substr(0, 100);
    EXPECT_EQ(code, ErrorCode::kInvalid);
  }
  // Every byte changed in turn: an error or a stream, never worse.
  for (std::size_t at = 0; at < id.size(); ++at) {
    for (const char byte : {'0', 'z', '~', '.', '-', 'e', '\xff'}) {
      std::string bad = id;
      bad[at] = byte;
      refused(kCompletions, body, bad);
    }
  }
}

TEST_F(StreamTest, ProgressBeyondTheAnswerEndsTheStreamWithoutMore) {
  const Json body = {{"max_tokens", 4}, {"ignore_eos", true}, {"seed", 1}};
  std::string id = stream(kCompletions, body).front().id;
  id = id.substr(0, id.rfind('~') + 1) + "100-18446744073709551615";
  const Joined joined = join(stream(kCompletions, body, id));
  EXPECT_EQ(joined.choices.at(0)["text"], "");
  EXPECT_EQ(joined.choices.at(0)["finish_reason"], "length");
}

TEST_F(StreamTest, WhatCannotBeStreamedIsRefused) {
  EXPECT_EQ(refused(kChat, {{"choices", {"a", "b"}}, {"choice_logprobs", true}}),
            "choice_logprobs is not streamed; leave out stream, or choice_logprobs");
  EXPECT_THAT(refused(kCompletions, {{"best_of", 3}}), HasSubstr("best_of is more than n: which choices are the best"));
  EXPECT_THAT(refused("/v1/score", {{"prompt", "a"}}), HasSubstr("is not one of /v1/completions"));
  EXPECT_THAT(refused(kCompletions, {{"prompt", {500}}}), HasSubstr("the prompt has token id 500"));
  EXPECT_EQ(engine->stats().num_running + engine->stats().num_waiting, 0);
}

TEST_F(StreamTest, AFailureInTheMiddleIsAnEventWithTheError) {
  world->before_forward = [](std::int64_t count) {
    if (count >= 4) throw Error("the device is gone");
  };
  const std::vector<Event> events = stream(kCompletions, {{"max_tokens", 20}, {"ignore_eos", true}});
  EXPECT_EQ(events.back().data, "[DONE]");
  const Json error = Json::parse(events[events.size() - 2].data);
  EXPECT_THAT(error["error"]["message"].get<std::string>(), HasSubstr("the device is gone"));
  EXPECT_EQ(error["error"]["type"], "server_error");
}

TEST_F(StreamTest, OneThatTheEnginesEndCutsHasNoEnd) {
  world->before_forward = [ending = engine.get()](std::int64_t count) {  // `engine` is null while it ends
    while (count >= 4 && ending->health().state != EngineHealth::State::kDraining) std::this_thread::yield();
  };
  const Json body = {{"max_tokens", 50}, {"ignore_eos", true}, {"stream", true}, {"prompt", kPrompt}};
  Json without_ids = body;
  without_ids["stream_options"] = {{"include_event_ids", false}};
  const auto resumable = service->stream(kCompletions, body, {}, [] {});
  const auto other = service->stream(kCompletions, without_ids, {}, [] {});
  std::string text;
  while (text.empty()) ASSERT_EQ(resumable->take(text), StreamState::kOpen);
  engine.reset();
  EXPECT_EQ(resumable->take(text), StreamState::kCut);
  const std::size_t comment = text.find(": the server ends");
  ASSERT_NE(comment, std::string::npos) << text;
  const std::vector<Event> events = parse(text.substr(0, comment));
  ASSERT_FALSE(events.empty());
  for (const Event& event : events) {  // an error, or [DONE]: its client does not go on
    EXPECT_FALSE(event.id.empty());
    EXPECT_TRUE(Json::parse(event.data).contains("choices"));
  }
  text.clear();
  EXPECT_EQ(other->take(text), StreamState::kCut);
  EXPECT_EQ(Json::parse(parse(text).back().data)["error"]["code"], "unavailable");
}

TEST_F(StreamTest, AStreamThatIsGivenUpFreesItsSequences) {
  Json body = {{"max_tokens", 50}, {"ignore_eos", true}, {"stream", true}, {"n", 2}, {"prompt", kPrompt}};
  for (int i = 0; i < 20; ++i) service->stream(kCompletions, body, {}, [] {});
  wait_until_idle();
  EXPECT_EQ(engine->stats().num_free_blocks + engine->stats().num_cached_free_blocks, engine->stats().num_blocks);
}

}  // namespace
}  // namespace mortise::test
