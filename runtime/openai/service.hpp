// runtime/openai/service.hpp: answers the bodies of OpenAI's API and of /v1/score, for every front end that has
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "chat_template/chat_template.hpp"
#include "engine/engine.hpp"
#include "error.hpp"
#include "openai/observer.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

class AnswerStream;
class Body;
struct Work;

struct Answer {
  int status = 200;  // as HTTP's; other than 200 the body is {"error": {"message", "type", "param", "code"}}
  nlohmann::ordered_json body;
  std::optional<std::int32_t> retry_after_s;  // of 429: seconds
};

// What a front end decides of an answer besides the body. By default it is drawn and looked up; who must get the same
// answer again sets it.
struct AnswerStamp {
  std::optional<std::string> id;        // without the prefix ("cmpl-"); none: random
  std::optional<std::int64_t> created;  // Unix seconds; none: now
  bool schedule_figures = true;         // usage.prompt_tokens_details: it depends on what else runs
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  // of its requests, as Request's; none: never
  std::string client_id = {};                                          // of its requests, as Request's
  std::optional<std::chrono::steady_clock::time_point> arrival = {};   // the same

  void put_on(Request& request) const {
    request.deadline = deadline;
    request.client_id = client_id;
    request.arrival = arrival;
  }
};

// A chat as one text, before it is tokens.
struct ChatPrompt {
  SegmentedText text;
  bool add_special_tokens = false;  // what the tokenizer puts around a prompt: templates of checkpoints write it
};

// What an answer says of its model, and how requests are read.
struct ServiceInfo {
  std::string model;               // name in answers
  std::string system_fingerprint;  // same fingerprint and seed: same tokens
  SamplingParams defaults;         // what absent sampling fields mean
  std::int32_t max_model_len = 0;
  // Makes a prompt of a chat. Throws an Error when it cannot; unset: chat is refused.
  std::function<ChatPrompt(const ChatInput& input)> chat_template;
  AnswerObserver* observer = nullptr;  // of all answers but scores; outlives the service
};

// Ends the requests of a body whose answer nobody waits for any more; it is answered all the same. Empty: there is
// nothing to end. [any thread, before the engine's end]
using Abort = std::function<void()>;

class Service {
 public:
  // The service outlives the requests of `engine`, whose answers it makes, so it may be there before the engine and
  // after it; handle() may not. `tokenizer` outlives both.
  Service(Engine& engine, const Tokenizer& tokenizer, ServiceInfo info);

  // Starts what `url` asks ("/v1/completions", "/v1/chat/completions", "/v1/score", "/v1/decisions"); `done` is called
  // once: here when the body is refused, else on a thread that delivers. Whether the body says `stream` makes no
  // difference. Thread-safe if chat_template is.
  Abort handle(const std::string& url, const nlohmann::json& body, std::function<void(Answer)> done,
               const AnswerStamp& stamp = {});

  // Starts a body with `stream` at /v1/completions or /v1/chat/completions. `last_event_id`: of the event behind which
  // a broken stream goes on; nothing of it is kept here. `wake` as in AnswerStream. Throws an Error when the body is
  // refused. Thread-safe if chat_template is.
  std::unique_ptr<AnswerStream> stream(const std::string& url, const nlohmann::json& body,
                                       const std::optional<std::string>& last_event_id, std::function<void()> wake,
                                       const AnswerStamp& stamp = {});

  // The tokens that a body at one of these two urls runs as its prompts. Throws an Error when the body is refused.
  std::vector<Request> requests(const std::string& url, const nlohmann::json& body) const;

  const ServiceInfo& info() const { return info_; }

 private:
  Work read(const std::string& url, const nlohmann::json& body) const;
  Work read_completion(const Body& body) const;
  Work read_chat(const Body& body) const;
  Abort score(const nlohmann::json& body, const AnswerStamp& stamp, std::function<void(Answer)> done);
  Abort decide(const nlohmann::json& body, const AnswerStamp& stamp, std::function<void(Answer)> done);

  // The tokens of messages, rendered by the chat template. Throws an Error when there is none, or it refuses them.
  std::vector<std::int32_t> chat_prompt(const ChatInput& input) const;

  // Tokens that a choice may get behind so many of its prompt, at most.
  std::size_t max_generated(const SamplingParams& sampling, std::size_t num_prompt) const;

  Engine& engine_;
  const Tokenizer& tokenizer_;
  const ServiceInfo info_;
};

// The one place where a code becomes a status: 400 invalid or too large, 404 not found, 409 conflict, 429 overloaded,
// 500 internal, 503 unavailable, 504 deadline exceeded. Too large is 400 as with OpenAI, whose clients know no 413.
int status_of(ErrorCode code);
Answer error_answer(const Error& error);

}  // namespace mortise
