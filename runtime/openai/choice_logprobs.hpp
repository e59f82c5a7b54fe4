// runtime/openai/choice_logprobs.hpp: `choice_logprobs`: requests with guided `choices`, and beside them the log
// probabilities of all these choices behind the same prompts, as /v1/score gives them. Internal to this folder.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "openai/body.hpp"
#include "openai/job.hpp"

namespace mortise {

// For each request a list, in the order of its choices: {"choice", "logprob", "token_ids", ...}. The tokens are those
// that guided generation makes of the choice, without an end token behind them.
using ChoiceLogprobs = std::vector<nlohmann::ordered_json>;

// Whether the body wants them. Throws an Error when it does and has no choices.
bool read_choice_logprobs(const Body& body, const SamplingParams& sampling);

// As run_job(): what becomes of the requests and of their choices, once both have ended. Each of `n` answers to a
// request is to have its list; 0: the lists are not wanted, and nothing else is run. Throws when that were too much.
Abort run_job_with_choices(Engine& engine, std::vector<Request> requests, std::size_t n, AnswerObserver* observer,
                           std::function<void(JobResult, ChoiceLogprobs, std::optional<Error> error)> done);

}  // namespace mortise
