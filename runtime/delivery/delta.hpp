// runtime/delivery/delta.hpp: the results of a request as the engine reports them while the request runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "error.hpp"
#include "sampling/token_info.hpp"

namespace mortise {

using RequestId = std::uint64_t;

enum class FinishReason { kNone, kStop, kLength, kAborted, kError };
const char* to_string(FinishReason reason);  // "stop", "length", ... as OpenAI's API spells them

struct Usage {
  std::int32_t prompt_tokens = 0;
  std::int32_t completion_tokens = 0;
  std::int32_t cached_tokens = 0;  // prompt tokens whose KV came from the prefix cache
  std::int32_t draft_tokens = 0;   // with a draft tree, only those on the kept path, here and in all statistics
  std::int32_t accepted_tokens = 0;
  // Of the request's prediction, whose tokens are not counted as drafts above. Set with the finish; their sum is the
  // length of the prediction. A token is accepted where the answer followed the prediction; all other tokens are
  // rejected.
  std::int32_t accepted_prediction_tokens = 0, rejected_prediction_tokens = 0;
};

// New results of one choice of a request. The deltas of a choice come in order; the last has a finish reason. `text`
// never ends inside a character, nor inside the possible beginning of a stop string. If a reader is slower than the
// engine, several deltas are merged into one. A value.
struct Delta {
  RequestId request = 0;
  std::int32_t choice = 0;
  std::vector<TokenInfo> prompt;  // prompt tokens from score_from on, all in the first delta
  std::vector<TokenInfo> tokens;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  std::string error;                      // for kError
  ErrorCode code = ErrorCode::kInternal;  // for kError
  // Valid if `finish` is set:
  std::optional<std::int32_t>
      stop_token;  // the end token or stop token that ended it (the last of the choice's tokens)
  std::uint64_t seed = 0;
  Usage usage;

  // In the first delta: the start of the choice's first step. nullopt: the choice ended before it ran.
  std::optional<std::chrono::steady_clock::time_point> started;
  // The time of the choice's first token. Only for News::kAtTheEnd; otherwise `earlier` has the times of the tokens.
  std::optional<std::chrono::steady_clock::time_point> first_token;
  // When the engine sent the delta: at the end of the step that made its last token. All deltas of a step have the same
  // time.
  std::chrono::steady_clock::time_point sent;
  // the deltas that were merged into this one, oldest first. Tokens after the last of them were sent at `sent`.
  struct Merged {
    std::chrono::steady_clock::time_point sent;
    std::size_t end = 0;  // end of its tokens in `tokens`
  };
  std::vector<Merged> earlier;

  // Appends the next delta of the same choice by moving its tokens.
  void append(Delta&& next);
  // Makes it a new delta, also after a move. Much cheaper than the assignment of one.
  void clear();
};

// When a reader wants to be told.
enum class News {
  kEachStep,  // every token as soon as it is computed
  kAtTheEnd,  // each choice once, as a whole; until then the engine merges its deltas, which is cheapest
};

// Takes the deltas of one request in order, one at a time, on a thread of the engine's DeliveryPool. It may block,
// which delays other readers of the pool but never the engine. If it throws, the request is aborted.
using Sink = std::function<void(Delta&&)>;

// Sees each delta before the sink, and may remove fields that the front end did not ask for. Also sees the end after
// the sink has thrown. Must not throw.
using Tap = std::function<void(Delta&)>;

}  // namespace mortise
