// runtime/openai/answers.hpp: the pieces that answers of completions and chat share. Internal to this folder.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "openai/job.hpp"
#include "openai/service.hpp"

namespace mortise {

// "cmpl-..." with 24 random hexadecimal digits.
std::string new_id(std::string_view prefix);

// The answer that `make` builds, or that of the error: of the engine, if there was one, or of what `make` throws (a
// text that the tokenizer cannot make). Throws nothing but for want of memory: each body gets its answer.
Answer make_answer(const std::optional<Error>& error, const std::function<nlohmann::ordered_json()>& make);

// id, object, created, model, system_fingerprint: the head of an answer.
nlohmann::ordered_json answer_head(const char* id_prefix, const char* object, const ServiceInfo& info,
                                   const AnswerStamp& stamp);

// The usage of an answer's choices.
struct UsageSum {
  std::int64_t prompt = 0, completion = 0;
  std::int64_t accepted = 0, rejected = 0;  // of the predictions
  std::optional<std::int64_t> cached;       // none: not said
  void add(const Usage& choice);            // all but what its prompt's choices share
  nlohmann::ordered_json json() const;
};

// Of all choices; prompt tokens count once for each prompt.
nlohmann::ordered_json usage_json(const JobResult& result, const AnswerStamp& stamp);

// Tokens as texts of their own, as they are within a text: with the space before a word that a decoder takes off the
// start of a text. Bytes that are no character by themselves show as U+FFFD. `as_ids`: "token_id:17" instead.
class TokenTexts {
 public:
  TokenTexts(const Tokenizer& tokenizer, bool as_ids);  // `tokenizer` outlives it
  std::string operator()(std::int32_t id) const { return as_ids_ ? "token_id:" + std::to_string(id) : plain(id); }
  std::string plain(std::int32_t id) const;

 private:
  const Tokenizer& tokenizer_;
  const bool as_ids_;
  std::vector<std::int32_t> before_;  // a token that others are decoded behind
  std::string before_text_;
};

// JSON has no infinity and no NaN; vLLM's floor, which clients know.
double finite_logprob(float logprob);

// What was scored: sum, ids, log probabilities, ranks, is_greedy.
nlohmann::ordered_json scored_json(const std::vector<TokenInfo>& tokens);

std::vector<std::int32_t> ids_of(const std::vector<TokenInfo>& tokens);
// `accepted_drafts` of a chunk: of each token, whether it was drafted and stood.
std::vector<bool> accepted_drafts(const std::vector<TokenInfo>& tokens);

// Number of alternatives that clients may ask for.
inline constexpr std::int64_t kMaxTopLogprobs = 20;

}  // namespace mortise
