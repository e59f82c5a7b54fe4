// runtime/openai/score_tokens.hpp: the tokens of a prompt and of what is scored behind it, split as
// lm-evaluation-harness splits them (0.4, TemplateLM._encode_pair and loglikelihood), so that both give one number for
// one question.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace mortise {

using SharedTokens = std::shared_ptr<const std::vector<std::int32_t>>;

// What one completion is scored with: the log probabilities of `completion` behind `prompt`, which is never empty.
struct ScoreTokens {
  SharedTokens prompt;  // one for all completions, as long as they agree on it
  std::vector<std::int32_t> completion;
};

// Splits the completions of one prompt. Behind an empty one stands the tokenizer's first token, or else its end token;
// a completion that begins with that one gives it away. Otherwise ids are taken as they are, and two texts are split
// so:
//   - white space at the end of the prompt belongs to the completion: tokens begin with a space, few end with one;
//   - the completion's tokens are those of both texts together, from the number of the prompt's tokens on. Where the
//     texts grow together so far that this leaves none, they are those behind the tokens that both have in common.
// What the post-processor adds goes before the prompt (unless it begins with its text), never before a completion.
class ScoreSplitter {
 public:
  // REQUIRES: `tokenizer` and `prompt` outlive it. Throws an Error when the prompt is neither text nor a list of ids.
  ScoreSplitter(const nlohmann::json& prompt, const Tokenizer& tokenizer, bool add_special_tokens);

  // Throws an Error when `completion`, called `name`, is neither text nor a list of ids, or nothing is there that could
  // predict it.
  ScoreTokens split(const nlohmann::json& completion, const std::string& name);
  // The prompt's tokens, of a text without the white space at its end; none if it is empty.
  const std::vector<std::int32_t>& prompt() const { return whole_ ? *whole_ : context_ids_; }

 private:
  ScoreTokens behind_text(const std::string& completion);
  ScoreTokens behind_nothing(std::vector<std::int32_t> completion);
  std::vector<std::int32_t> own_tokens(const std::string& completion) const;
  SharedTokens shared(std::vector<std::int32_t> prompt);

  const Tokenizer& tokenizer_;
  const std::string* text_ = nullptr;  // of the prompt, if it has one
  std::string context_, spaces_;       // that text without the white space at its end, and that
  bool add_special_tokens_;
  std::vector<std::int32_t> context_ids_;
  SharedTokens whole_, last_;  // the whole prompt, as ids follow it; the last one that was used
};

}  // namespace mortise
