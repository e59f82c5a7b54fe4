// runtime/openai/choice_logprobs.hpp: the field `choice_logprobs`: for requests with guided `choices`, the log
// probabilities of all choices after the same prompt, as /v1/score gives them. Internal to this folder.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "openai/body.hpp"
#include "openai/job.hpp"

namespace mortise {

// A list for each request, in the order of its choices: {"choice", "logprob", "token_ids", ...}. The tokens are those
// that guided generation uses for the choice, without an end token.
using ChoiceLogprobs = std::vector<nlohmann::ordered_json>;

// Whether the body asks for them. Throws an Error if it does, but has no choices.
bool read_choice_logprobs(const Body& body, const SamplingParams& sampling);

// Like run_job(), but also scores the choices; `done` is called when both have ended. Each of the `n` answers to a
// request gets the list; with n = 0 nothing is scored. Throws if the lists would be too large.
Abort run_job_with_choices(Engine& engine, std::vector<Request> requests, std::size_t n, AnswerObserver* observer,
                           std::function<void(JobResult, ChoiceLogprobs, std::optional<Error> error)> done);

}  // namespace mortise
