// runtime/openai/answers.hpp: the parts that answers of completions and chat have in common. Internal to this folder.
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

// Returns "cmpl-..." with 24 random hexadecimal digits.
std::string new_id(std::string_view prefix);

// The answer that `make` builds. If there is an `error`, or `make` throws (because the tokenizer cannot decode a text),
// the answer is that error, so that each body gets an answer. Throws only if memory runs out.
Answer make_answer(const std::optional<Error>& error, const std::function<nlohmann::ordered_json()>& make);

// id, object, created, model, system_fingerprint: the head of an answer.
nlohmann::ordered_json answer_head(const char* id_prefix, const char* object, const ServiceInfo& info,
                                   const AnswerStamp& stamp);

// Adds up the usage of an answer's choices. A value.
struct UsageSum {
  std::int64_t prompt = 0, completion = 0;
  std::int64_t accepted = 0, rejected = 0;  // tokens of predictions
  std::optional<std::int64_t> cached;       // nullopt: not reported
  void add(const Usage& choice);            // all figures except those that the choices of a prompt share
  nlohmann::ordered_json json() const;
};

// Returns the usage of all choices. Prompt tokens count once per prompt.
nlohmann::ordered_json usage_json(const JobResult& result, const AnswerStamp& stamp);

// Texts of single tokens as they appear within a text: with the leading space that a decoder removes at the start of a
// text. Bytes that are not a whole character become U+FFFD. With `as_ids` the text is "token_id:17". Used by one thread
// at a time. Invariant: the texts depend on the ids alone.
class TokenTexts {
 public:
  TokenTexts(const Tokenizer& tokenizer, bool as_ids);  // `tokenizer` outlives it
  std::string operator()(std::int32_t id) const { return as_ids_ ? "token_id:" + std::to_string(id) : plain(id); }
  std::string plain(std::int32_t id) const;

 private:
  const Tokenizer& tokenizer_;
  const bool as_ids_;
  std::vector<std::int32_t> before_;  // a token in front of the decoded token
  std::string before_text_;
};

// Replaces infinity and NaN, which JSON cannot hold, by vLLM's floor, which clients know.
double finite_logprob(float logprob);

// The scores of a completion: sum, ids, log probabilities, ranks, is_greedy.
nlohmann::ordered_json scored_json(const std::vector<TokenInfo>& tokens);

std::vector<std::int32_t> ids_of(const std::vector<TokenInfo>& tokens);
// `accepted_drafts` of a chunk: for each token, whether it was an accepted draft.
std::vector<bool> accepted_drafts(const std::vector<TokenInfo>& tokens);

// The most alternatives that a client may ask for.
inline constexpr std::int64_t kMaxTopLogprobs = 20;

}  // namespace mortise
