#include "openai/service.hpp"

#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "openai/answer_stream.hpp"
#include "openai/answers.hpp"
#include "openai/body.hpp"
#include "openai/error_body.hpp"
#include "openai/prediction.hpp"
#include "openai/unserved_fields.hpp"
#include "openai/work.hpp"

namespace mortise {

namespace {

// The "code" in an error's body, for programs. nullopt where OpenAI has none.
std::optional<std::string> code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      break;
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kTooLarge:
      return "context_length_exceeded";
    case ErrorCode::kConflict:
      return "other_fingerprint";
    case ErrorCode::kOverloaded:
      return "overloaded";
    case ErrorCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case ErrorCode::kInternal:
      return "internal_error";
    case ErrorCode::kUnavailable:
      return "unavailable";
  }
  return std::nullopt;
}

}  // namespace

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kTooLarge:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kOverloaded:
      return 429;
    case ErrorCode::kInternal:
      break;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
  }
  return 500;
}

Answer error_answer(const Error& error) {
  const int status = status_of(error.code());
  Answer answer{status, error_body(status, error.what(), code_name(error.code())), std::nullopt};
  if (const auto* overloaded = dynamic_cast<const OverloadedError*>(&error)) {
    answer.retry_after_s = overloaded->retry_after_s();
  }
  return answer;
}

Service::Service(Engine& engine, const Tokenizer& tokenizer, ServiceInfo info)
    : engine_(engine), tokenizer_(tokenizer), info_(std::move(info)) {}

Work Service::read(const std::string& url, const nlohmann::json& json) const {
  const Body body(json);
  refuse_unserved_fields(url, json);
  if (url != "/v1/completions" && url != "/v1/chat/completions") {
    fail(ErrorCode::kNotFound, "url {} is not one of /v1/completions, /v1/chat/completions, /v1/score, /v1/decisions",
         quote(url));
  }
  Work work = url == "/v1/completions" ? read_completion(body) : read_chat(body);
  work.stream = read_stream_options(body);
  return work;
}

Abort Service::handle(const std::string& url, const nlohmann::json& body, std::function<void(Answer)> done,
                      const AnswerStamp& stamp) {
  try {
    if (url == "/v1/score") return score(body, stamp, done);
    if (url == "/v1/decisions") return decide(body, stamp, done);
    if (Body(body).boolean("return_draft_info").value_or(false)) {
      fail("return_draft_info is for streams: which tokens were drafts depends on what else runs; set stream too");
    }
    Work work = read(url, body);
    read_resumed_tokens(Body(body), /*resumes=*/false, work.requests);
    for (Request& request : work.requests) stamp.put_on(request);
    const auto answer = [this, stamp, work_write = std::move(work.write), prefix = work.id_prefix,
                         object = work.object](JobResult&& result, const ChoiceLogprobs& guided) {
      nlohmann::ordered_json json = answer_head(prefix, object, info_, stamp);
      nlohmann::ordered_json usage = usage_json(result, stamp);  // of all generated choices
      work_write(result, guided, json);
      json["usage"] = std::move(usage);
      return json;
    };
    return run_job_with_choices(
        engine_, std::move(work.requests), work.num_guided_lists, info_.observer,
        [answer, done](JobResult result, const ChoiceLogprobs& guided, const std::optional<Error>& error) {
          done(make_answer(error, [&] { return answer(std::move(result), guided); }));
        });
  } catch (const Error& error) {
    done(error_answer(error));
    return nullptr;
  }
}

std::vector<Request> Service::requests(const std::string& url, const nlohmann::json& body) const {
  return read(url, body).requests;
}

namespace {

std::uint64_t hash_of_prompts(const std::vector<Request>& requests) {
  std::uint64_t hash = 0;
  for (const Request& request : requests) {
    hash = XXH3_64bits_withSeed(request.prompt.data(), request.prompt.size() * sizeof(std::int32_t), hash + 1);
  }
  return hash;
}

// Sets each prompt's seed: the body's seed for all, or consecutive drawn seeds.
void set_seeds(std::vector<Request>& requests, const StreamOrigin& origin) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.seed = origin.seed + (origin.seed_drawn ? i : 0);
  }
}

// Reads the id from which a broken stream goes on. Throws an Error if this body cannot resume it.
EventId resumed_from(const std::string& last_event_id, const StreamOrigin& here,
                     const std::optional<std::uint64_t>& seed) {
  EventId id = read_event_id(last_event_id);
  if (id.origin.fingerprint != here.fingerprint) {
    fail(ErrorCode::kConflict,
         "the stream was begun by a pipeline with the fingerprint {}, but this one has {}: its tokens may differ; send "
         "the request again without Last-Event-ID, or to a replica with the same fingerprint",
         quote(id.origin.fingerprint), quote(here.fingerprint));
  }
  if (id.origin.prompts != here.prompts) {
    fail("Last-Event-ID belongs to a stream with another prompt; repeat the body exactly, or leave out the header");
  }
  if (seed && *seed != id.origin.seed) {
    fail("seed is {}, but Last-Event-ID belongs to a stream with the seed {}; repeat the body exactly", *seed,
         id.origin.seed);
  }
  return id;
}

}  // namespace

std::unique_ptr<AnswerStream> Service::stream(const std::string& url, const nlohmann::json& body,
                                              const std::optional<std::string>& last_event_id,
                                              std::function<void()> wake, const AnswerStamp& stamp) {
  Work work = read(url, body);
  read_resumed_tokens(Body(body), last_event_id.has_value(), work.requests);
  for (Request& request : work.requests) {
    stamp.put_on(request);
    engine_.check(request);  // here, because the writer expects a first token
  }
  if (work.num_guided_lists > 0) fail("choice_logprobs is not streamed; leave out stream, or choice_logprobs");
  nlohmann::ordered_json head = answer_head(work.id_prefix, work.chunk_object, info_, stamp);
  EventId id;
  StreamOrigin& origin = id.origin;
  origin.fingerprint = info_.system_fingerprint;
  origin.answer_id = head["id"].get<std::string>().substr(std::string(work.id_prefix).size() + 1);
  origin.created = head["created"];
  origin.prompts = hash_of_prompts(work.requests);
  const std::optional<std::uint64_t> seed = work.requests.front().sampling.seed;
  origin.seed = seed ? *seed : draw_seed();
  origin.seed_drawn = !seed;
  if (last_event_id) {
    id = resumed_from(*last_event_id, origin, seed);
    head["id"] = fmt::format("{}-{}", work.id_prefix, origin.answer_id);
    head["created"] = origin.created;
  }
  set_seeds(work.requests, origin);
  std::string text = head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.back() = ',';  // the choices follow
  return std::make_unique<AnswerStream>(engine_, std::move(work), origin, std::move(text), std::move(id.choices),
                                        info_.observer, std::move(wake));
}

StreamOptions read_stream_options(const Body& body) {
  StreamOptions options;
  options.wanted = body.boolean("stream").value_or(false);
  const nlohmann::json* json = body.find("stream_options");
  if (json == nullptr) return options;
  const Body fields(*json, "stream_options");
  options.usage_at_the_end = fields.boolean("include_usage").value_or(false);
  options.usage_always = fields.boolean("continuous_usage_stats").value_or(false);
  options.event_ids = fields.boolean("include_event_ids").value_or(true);
  return options;
}

std::size_t Service::max_generated(const SamplingParams& sampling, std::size_t num_prompt) const {
  const auto room = static_cast<std::int64_t>(info_.max_model_len) - static_cast<std::int64_t>(num_prompt);
  std::int64_t most = sampling.max_tokens;
  if (!sampling.choices.empty()) {
    // A token of a text has at least one byte; an end token may follow.
    std::size_t longest = 0;
    for (const GuidedChoice& choice : sampling.choices) {
      longest = std::max(longest, std::visit([](const auto& value) { return value.size(); }, choice));
    }
    most = std::min(most, static_cast<std::int64_t>(longest) + 1);
  }
  return static_cast<std::size_t>(std::clamp<std::int64_t>(room, 0, most));
}

}  // namespace mortise
