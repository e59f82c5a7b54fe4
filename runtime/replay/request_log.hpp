// runtime/replay/request_log.hpp: the format of request logs, which `--record` writes and `mortise replay` reads.
//
// JSON lines. A header line begins the log and stands before the requests of each further pipeline:
//   {"mortise_log": 1, "pipeline", "model", "system_fingerprint", "numerics_id", "vocab_size", "vocabulary"}
// `mortise_log` is the version; `vocabulary` a hash of the tokens' texts. Then a line a request, written when it has
// ended:
//   {"request", "pipeline", "prompt": [ids], "sampling": {...}, "logprobs", "score_from", "priority", "group",
//    "request_id", "speculation": {"proposer", "max_tokens"},
//    "choices": [{"finish_reason", "stop_token", "tokens": [ids],
//                 "token_logprobs": [...], "top_logprobs": [[[id, value], ...], ...],
//                 "prompt_logprobs": [...], "prompt_top_logprobs": [...], "error"}, ...]}
// `sampling` has the names of a request body, including the seed that was used. `prompt_logprobs` belong to the
// prompt's tokens from `score_from` on. The lists of alternatives exist if `logprobs`, the number that the request
// asked for, is above 0. `speculation` exists if the request had it, `request_id` (X-Request-Id) if the request came
// over HTTP. A prediction is not recorded: it changes no token, and a replay must reproduce the tokens without it. Log
// probabilities are 32-bit floats printed with the digits of a 64-bit float, which is exact. Values that JSON cannot
// hold (infinities, NaN) are strings with the bits: "0xff800000".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/request.hpp"

namespace mortise {

inline constexpr int kLogVersion = 1;

// Describes the pipeline in which requests ran.
struct LogHeader {
  std::string pipeline;  // name in its script
  std::string model;
  std::string system_fingerprint;
  std::string numerics_id;
  std::int32_t vocab_size = 0;
  std::string vocabulary;
};

struct RecordedChoice {
  std::vector<TokenInfo> prompt;  // scored prompt tokens; id and top may be missing
  std::vector<TokenInfo> tokens;
  FinishReason finish = FinishReason::kNone;
  std::optional<std::int32_t> stop_token;
  std::string error;
};

struct RecordedRequest {
  RequestId id = 0;
  std::string pipeline;
  Request request;
  std::vector<RecordedChoice> choices;
};

nlohmann::ordered_json to_json(const LogHeader& header);
nlohmann::ordered_json to_json(const RecordedRequest& request);

bool is_log_header(const nlohmann::json& line);
// Throw an Error that names the wrong field.
LogHeader read_log_header(const nlohmann::json& line);
RecordedRequest read_recorded_request(const nlohmann::json& line);

// A 32-bit float as text: the shortest digits that give the same float, and its bits: "-1.25 (0xbfa00000)".
std::string exact_text(float value);

}  // namespace mortise
