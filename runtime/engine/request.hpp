// runtime/engine/request.hpp: a request as a front end hands it to the engine. The answer is in delivery/delta.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "delivery/delta.hpp"
#include "sampling/params.hpp"

namespace mortise {

// Which proposers draft for a request, and how many tokens. It decides speed and changes no token.
struct SpeculationChoice {
  // The name of one of the pipeline's proposers, or "none". Not set: all of them, in their order.
  std::optional<std::string> proposer = {};
  // The most drafts per step. Not set: as many as the proposer's options allow.
  std::optional<std::int32_t> max_tokens = {};
};

struct Request {
  std::vector<std::int32_t> prompt;
  SamplingParams sampling;
  // Log probabilities of the generated tokens, with this many alternatives (0: only the tokens' own). Not set: not
  // computed.
  std::optional<std::int32_t> logprobs;
  // Log probabilities of prompt tokens from this index on (at least 1: nothing predicts token 0). Not set: not
  // computed.
  std::optional<std::int32_t> score_from;
  std::int32_t priority = 0;  // lower runs first
  std::uint64_t group = 0;    // the user's hint of requests that are better run together; 0: none
  SpeculationChoice speculation;
  // Tokens that each choice is expected to generate. They are used as drafts (speculation/prediction), so they change
  // only when tokens come, never which tokens. They may be wrong, too few or too many; a prediction longer than the
  // model's length is refused. Independent of `speculation`, which selects proposers. Ignored if drafts are verified by
  // rejection sampling.
  std::vector<std::int32_t> prediction = {};
  // The prediction comes from an earlier run of this very request, so all of it is tried at once. It may still be
  // wrong.
  bool resumed = false;
  // At the first step boundary after this time the request ends with FinishReason::kError and
  // ErrorCode::kDeadlineExceeded, whether it runs or waits. Not set: no deadline.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  // The request belongs to the same body as an accepted request before it, so the limits on waiting requests do not
  // apply. Otherwise a body with more prompts than may wait would never run.
  bool follows = false;
  // When the front end received the request, for measurements. Not set: when it is submitted.
  std::optional<std::chrono::steady_clock::time_point> arrival = {};
  // The client's name for the request (X-Request-Id). The engine keeps it only for its watcher, which records it.
  std::string client_id = {};
};

}  // namespace mortise
