// runtime/openai/job.hpp: runs the requests of one body and collects what comes back, until all choices have finished.
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

// Submits all requests, then calls `done` once, on a thread that delivers: with the results, or with the error of the
// first request that failed. A request that the engine refuses throws here, and those submitted before it are aborted.
// `observer` may be null.
Abort run_job(Engine& engine, std::vector<Request> requests, AnswerObserver* observer, JobDone done);

// Requests of one choice each that are made when their turn comes, so that a body of very many needs memory for some of
// them alone. `make` may be called on any thread, one call at a time, and again for a request that the engine had no
// room for; it must not throw.
struct RequestSeries {
  std::size_t count = 0;
  std::function<Request(std::size_t index)> make;
};

// Of one body with the engine at a time. Each request has its prompt twice there: 8 MiB. That is 500 completions of a
// prompt of 2000 tokens, more than a step runs.
inline constexpr std::size_t kMaxOpenTokens = std::size_t{1} << 20;

// The same for a series: at a time the engine has requests of about `max_open_tokens` prompt tokens of it, at least one
// request. Where the engine has no room for the next, it waits for those that it has there; without any it fails as
// overloaded. REQUIRES: engine.check() takes all of them.
Abort run_job(Engine& engine, RequestSeries requests, std::size_t max_open_tokens, JobDone done);

}  // namespace mortise
