// runtime/openai/job.hpp: runs the requests of one body and collects what comes back, until all choices have finished.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.hpp"

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

// Submits all requests, then calls `done` once, on the engine's thread: with the results, or with the error text of a
// request that failed. A request that the engine refuses throws here, and those submitted before it are aborted.
void run_job(Engine& engine, std::vector<Request> requests, std::function<void(JobResult, std::string error)> done);

}  // namespace mortise
