// tests/unit/openai/service_fixture.hpp: a service over an engine with fake parts, and the bodies that clients send it.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine_fixture.hpp"
#include "openai/service.hpp"

namespace mortise::test {

using Json = nlohmann::json;

inline constexpr const char *kChat = "/v1/chat/completions", *kCompletions = "/v1/completions";

inline const Json kPrompt = {68, 69, 70};  // "abc"

class ServiceTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineLimits limits = small_limits();
    limits.max_num_seqs = 64;
    limits.num_blocks = 600;
    limits.max_batched_tokens = 64;
    world = std::make_unique<FakeWorld>(limits);
    start(limits, {kEnd});
    ServiceInfo info;
    info.model = "fake";
    info.system_fingerprint = "mortise-test";
    info.defaults.temperature = 0;
    info.max_model_len = limits.max_model_len;
    info.chat_template = [](const ChatInput& input) {
      const Json messages = with_text_contents(input.messages);
      return ChatPrompt{{{messages[0]["content"].get<std::string>(), true}}, /*add_special_tokens=*/true};
    };
    service = std::make_unique<Service>(*engine, tokenizer(), info);
  }
  void TearDown() override { engine.reset(); }

  Answer post(const std::string& url, const Json& body) {
    std::promise<Answer> promise;
    service->handle(url, body, [&](Answer answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  }
  Json complete(Json fields) {
    fields.emplace("prompt", kPrompt);
    const Answer answer = post("/v1/completions", fields);
    EXPECT_EQ(answer.status, 200) << answer.body.dump();
    return Json::parse(answer.body.dump());
  }
  Json chat(Json fields) {
    fields.emplace("messages", Json::parse(R"([{"role": "user", "content": "xq"}])"));
    const Answer answer = post("/v1/chat/completions", fields);
    EXPECT_EQ(answer.status, 200) << answer.body.dump();
    return Json::parse(answer.body.dump());
  }
  // The message of the refusal, or "accepted".
  std::string refusal(const std::string& url, Json fields) {
    if (url == "/v1/chat/completions") {
      fields.emplace("messages", Json::parse(R"([{"role": "user", "content": "xq"}])"));
    } else {
      fields.emplace("prompt", kPrompt);
    }
    const Answer answer = post(url, fields);
    if (answer.status == 200) return "accepted";
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.body["error"]["type"], "invalid_request_error");
    return answer.body["error"]["message"];
  }
  std::string text_of(const std::vector<std::int32_t>& ids) { return tokenizer().decode(ids, true); }

  static constexpr std::int32_t kEnd = 1;
  std::unique_ptr<Service> service;
};

}  // namespace mortise::test
