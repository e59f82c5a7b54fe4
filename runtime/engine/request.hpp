// runtime/engine/request.hpp: what a front end gives the engine, and what it gets back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "error.hpp"
#include "sampling/params.hpp"
#include "sampling/token_info.hpp"

namespace mortise {

using RequestId = std::uint64_t;

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
};

enum class FinishReason { kNone, kStop, kLength, kAborted, kError };
const char* to_string(FinishReason reason);  // "stop", "length", ... as OpenAI's API spells them

struct Usage {
  std::int32_t prompt_tokens = 0;
  std::int32_t completion_tokens = 0;
  std::int32_t cached_tokens = 0;  // prompt tokens whose KV came from the prefix cache
  std::int32_t draft_tokens = 0;   // of a tree those of the path that was kept, here and in all statistics
  std::int32_t accepted_tokens = 0;
};

// News of one choice of a request. Deltas of a choice come in order; the last has a finish reason. `text` never ends in
// the middle of a character or in what may become a stop string.
struct Delta {
  RequestId request = 0;
  std::int32_t choice = 0;
  std::vector<TokenInfo> prompt;  // prompt tokens from score_from on, all in one delta
  std::vector<TokenInfo> tokens;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  std::string error;                      // for kError
  ErrorCode code = ErrorCode::kInternal;  // for kError
  // With the finish:
  std::optional<std::int32_t>
      stop_token;  // the end token or stop token that ended it (the last of the choice's tokens)
  std::uint64_t seed = 0;
  Usage usage;
};

// Called on the engine's thread; must not block and must not throw.
using Sink = std::function<void(const Delta&)>;

}  // namespace mortise
