// runtime/openai/service.hpp: answers the bodies of OpenAI's API and of /v1/score, for all front ends.
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
  int status = 200;  // an HTTP status; unless 200, the body is {"error": {"message", "type", "param", "code"}}
  nlohmann::ordered_json body;
  std::optional<std::int32_t> retry_after_s;  // for 429
};

// Properties that a front end may set on an answer. An unset id is drawn, and an unset `created` is looked up: a front
// end that must give the same answer again sets both. A value.
struct AnswerStamp {
  std::optional<std::string> id;        // without the prefix "cmpl-"; nullopt: random
  std::optional<std::int64_t> created;  // Unix seconds; nullopt: now
  bool schedule_figures = true;         // usage.prompt_tokens_details, which depends on what else runs
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  // of its requests; nullopt: none
  std::string client_id = {};                                          // of its requests
  std::optional<std::chrono::steady_clock::time_point> arrival = {};   // of its requests

  void put_on(Request& request) const {
    request.deadline = deadline;
    request.client_id = client_id;
    request.arrival = arrival;
  }
};

// A rendered chat: one text that is not tokenized yet.
struct ChatPrompt {
  SegmentedText text;
  bool add_special_tokens = false;  // false: the template writes them itself, as those of checkpoints do
};

// What answers say about their model, and how requests are read.
struct ServiceInfo {
  std::string model;               // name in answers
  std::string system_fingerprint;  // equal fingerprint and seed: equal tokens
  SamplingParams defaults;         // values of absent sampling fields
  std::int32_t max_model_len = 0;
  // Renders the prompt of a chat. Throws an Error if it cannot. Unset: chat requests are refused.
  std::function<ChatPrompt(const ChatInput& input)> chat_template;
  AnswerObserver* observer = nullptr;  // sees all answers except scores; outlives the service
};

// Ends the requests of a body whose client has gone. The body is still answered. May be empty. [any thread, before the
// engine's end]
using Abort = std::function<void()>;

// Answers bodies with an engine. It keeps no state of a body after its answer. Thread-safe as the functions say.
class Service {
 public:
  // The service outlives the requests of `engine`, whose answers it builds. It may be created before the engine and
  // destroyed after it, but handle() needs the engine. `tokenizer` outlives both.
  Service(Engine& engine, const Tokenizer& tokenizer, ServiceInfo info);

  // Starts the requests of a body for `url` ("/v1/completions", "/v1/chat/completions", "/v1/score", "/v1/decisions").
  // `done` is called once: within this call if the body is refused, else on a delivery thread. The field `stream` is
  // ignored. Thread-safe if chat_template is.
  Abort handle(const std::string& url, const nlohmann::json& body, std::function<void(Answer)> done,
               const AnswerStamp& stamp = {});

  // Starts a body with `stream` for /v1/completions or /v1/chat/completions. `last_event_id` is the event after which
  // a broken stream resumes; its content is in the id, since the service keeps nothing. `wake` as in AnswerStream.
  // Throws an Error if the body is refused. Thread-safe if chat_template is.
  std::unique_ptr<AnswerStream> stream(const std::string& url, const nlohmann::json& body,
                                       const std::optional<std::string>& last_event_id, std::function<void()> wake,
                                       const AnswerStamp& stamp = {});

  // The requests, with tokenized prompts, of a body for one of these two urls. Throws an Error if the body is refused.
  std::vector<Request> requests(const std::string& url, const nlohmann::json& body) const;

  const ServiceInfo& info() const { return info_; }

 private:
  Work read(const std::string& url, const nlohmann::json& body) const;
  Work read_completion(const Body& body) const;
  Work read_chat(const Body& body) const;
  Abort score(const nlohmann::json& body, const AnswerStamp& stamp, std::function<void(Answer)> done);
  Abort decide(const nlohmann::json& body, const AnswerStamp& stamp, std::function<void(Answer)> done);

  // Returns the tokens of messages, rendered by the chat template. Throws an Error if there is no template, or the
  // template refuses the messages.
  std::vector<std::int32_t> chat_prompt(const ChatInput& input) const;

  // The most tokens that a choice can get after `num_prompt` prompt tokens.
  std::size_t max_generated(const SamplingParams& sampling, std::size_t num_prompt) const;

  Engine& engine_;
  const Tokenizer& tokenizer_;
  const ServiceInfo info_;
};

// The only place that turns a code into a status: 400 invalid or too large, 404 not found, 409 conflict, 429
// overloaded, 500 internal, 503 unavailable, 504 deadline exceeded. Too large is 400 as with OpenAI, whose clients do
// not know 413.
int status_of(ErrorCode code);
Answer error_answer(const Error& error);

}  // namespace mortise
