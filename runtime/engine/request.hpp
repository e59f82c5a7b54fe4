// runtime/engine/request.hpp: what a front end gives the engine. What it gets back: delivery/delta.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "delivery/delta.hpp"
#include "sampling/params.hpp"

namespace mortise {

// Who drafts for a request, and how much: a choice about speed, which changes no token.
struct SpeculationChoice {
  std::optional<std::string> proposer = {};  // one of the pipeline's, or "none". Not set: all of them, in their order
  std::optional<std::int32_t> max_tokens =
      {};  // drafts a step, at most. Not set: as many as the proposer's options allow
};

struct Request {
  std::vector<std::int32_t> prompt;
  SamplingParams sampling;
  // Log probabilities of the generated tokens, with this many alternatives (0: the tokens' own alone). None: not
  // computed.
  std::optional<std::int32_t> logprobs;
  // Log probabilities of prompt tokens from this index on (at least 1: nothing predicts token 0). None: not computed.
  std::optional<std::int32_t> score_from;
  std::int32_t priority = 0;  // lower runs first
  std::uint64_t group = 0;    // prefix group, 0 none
  SpeculationChoice speculation;
  // Tokens that each choice is expected to generate. They are drafts (speculation/prediction), so they change when
  // tokens come and never which, and may be wrong, too few or too many; more than the model's length are refused.
  // Independent of `speculation`, which is about proposers. Ignored where drafts are verified by rejection sampling.
  std::vector<std::int32_t> prediction = {};
  // The prediction is what an earlier run of this very request gave: all of it is tried at once. It may still be wrong.
  bool resumed = false;
  // When it is to be given up, whether it runs or waits: at the first step boundary after this time it ends with
  // FinishReason::kError and ErrorCode::kDeadlineExceeded. None: never.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  // Of one body with a request before it, which was accepted: the bounds on what waits do not hold for it. Otherwise a
  // body of more prompts than may wait would never run.
  bool follows = false;
  // When its front end got it, for who measures answers. None: when it is submitted.
  std::optional<std::chrono::steady_clock::time_point> arrival = {};
  // What the client calls it (X-Request-Id). The engine keeps it for its watcher alone, which records it.
  std::string client_id = {};
};

}  // namespace mortise
