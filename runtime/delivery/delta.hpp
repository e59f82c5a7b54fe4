// runtime/delivery/delta.hpp: what an engine says of a request while it runs.
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
  std::int32_t draft_tokens = 0;   // of a tree those of the path that was kept, here and in all statistics
  std::int32_t accepted_tokens = 0;
  // Of the request's prediction, which counts as no draft above. With the finish; their sum is its length. Accepted are
  // tokens that came where the answer followed the prediction, rejected all others.
  std::int32_t accepted_prediction_tokens = 0, rejected_prediction_tokens = 0;
};

// News of one choice of a request. Deltas of a choice come in order; the last has a finish reason. `text` never ends in
// the middle of a character or in what may become a stop string. A reader that is slower than the engine gets several
// deltas merged into one.
struct Delta {
  RequestId request = 0;
  std::int32_t choice = 0;
  std::vector<TokenInfo> prompt;  // prompt tokens from score_from on, all in the first delta
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

  // In the first delta: when the choice's first step began. None: it ended before it ran.
  std::optional<std::chrono::steady_clock::time_point> started;
  // When the choice's first token was made. Only for News::kAtTheEnd: others have it with the tokens' own times.
  std::optional<std::chrono::steady_clock::time_point> first_token;
  // When the engine sent it: at the end of the step that made its last token. All deltas of a step have the same time.
  std::chrono::steady_clock::time_point sent;
  // Of a merged delta: its earlier parts, oldest first. Tokens behind the last of them were sent at `sent`.
  struct Part {
    std::chrono::steady_clock::time_point sent;
    std::size_t end = 0;  // of its tokens, in `tokens`
  };
  std::vector<Part> earlier;

  // Appends the next delta of the same choice. The tokens move; nothing is copied.
  void append(Delta&& next);
};

// What a reader wants to hear of.
enum class News {
  kEachStep,  // every token as soon as it is there
  kAtTheEnd,  // each choice once, as a whole: until then the engine keeps its deltas together, which costs least
};

// Takes the deltas of one request in order, one at a time, on a thread of the engine's DeliveryPool. It may block: that
// delays other readers of the pool, never the engine. If it throws, the request is aborted.
using Sink = std::function<void(Delta&&)>;

// Sees each delta before the sink does, and may take out of it what the front end did not ask for. Unlike the sink it
// still hears of the end when the sink has thrown. Must not throw.
using Tap = std::function<void(Delta&)>;

}  // namespace mortise
