// runtime/openai/job.hpp: runs the requests of one body and collects their results until all choices have ended.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "error.hpp"
#include "openai/observer.hpp"
#include "openai/service.hpp"

namespace mortise {

struct ChoiceResult {
  std::vector<TokenInfo> prompt;  // scored prompt tokens
  std::vector<TokenInfo> tokens;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  std::optional<std::int32_t> stop_token;
  std::uint64_t seed = 0;
  Usage usage;
};

// One list of choices for each request.
using JobResult = std::vector<std::vector<ChoiceResult>>;

using JobDone = std::function<void(JobResult, std::optional<Error> error)>;

// Submits all requests, then calls `done` once, on a delivery thread: with the results, or with the error of the first
// request that failed. If the engine refuses a request, this throws, and the requests submitted before are aborted.
// `observer` may be null.
Abort run_job(Engine& engine, std::vector<Request> requests, AnswerObserver* observer, JobDone done);

// Requests with one choice each. They are made one at a time, so a body with very many requests needs memory for only a
// few. `make` is called on any thread, one call at a time, and again for a request that the engine had no room
// for. It must not throw.
struct RequestSeries {
  std::size_t count = 0;
  std::function<Request(std::size_t index)> make;
};

// The most prompt tokens of one body that are in the engine at a time. Each request has its prompt twice there: 8 MiB.
// That is 500 completions of a prompt of 2000 tokens, more than a step runs.
inline constexpr std::size_t kMaxOpenTokens = std::size_t{1} << 20;

// The same for a series. It keeps at least one request in the engine, and about `max_open_tokens` prompt tokens at
// most. If the engine has no room for the next request, it waits until one of its own ends; without any it fails as
// overloaded.
// REQUIRES: engine.check() accepts all requests.
Abort run_job(Engine& engine, RequestSeries requests, std::size_t max_open_tokens, JobDone done);

}  // namespace mortise
