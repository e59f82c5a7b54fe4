// runtime/openai/score_tokens.hpp: splits a prompt and the completions that are scored after it into tokens, as
// lm-evaluation-harness does (0.4, TemplateLM._encode_pair and loglikelihood), so that both give the same scores.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace mortise {

using SharedTokens = std::shared_ptr<const std::vector<std::int32_t>>;

// The tokens of one score: the log probabilities of `completion` after `prompt`, which is never empty.
struct ScoreTokens {
  SharedTokens prompt;  // one list for all completions, unless they change it
  std::vector<std::int32_t> completion;
};

// Splits the completions of one prompt. Used by one thread. If the prompt is empty, the tokenizer's first token, or
// else its end token, stands for it; a completion that begins with that token then loses it. Token ids are not changed.
// Two texts are split as follows:
//   - White space at the end of the prompt belongs to the completion: many tokens begin with a space, few end with one.
//   - Both texts are tokenized together. If the prompt alone has k tokens, the tokens from index k on are the
//     completion's. If there are none, the completion's tokens are those after the longest common beginning of the
//     prompt's tokens and the tokens of both texts.
// Tokens of the post-processor go in front of the prompt (unless it begins with their text), never in front of a
// completion. Invariant: if the prompt is a text, context_ and spaces_ together are it.
class ScoreSplitter {
 public:
  // REQUIRES: `tokenizer` and `prompt` outlive this object. Throws an Error if the prompt is neither text nor a list of
  // ids.
  ScoreSplitter(const nlohmann::json& prompt, const Tokenizer& tokenizer, bool add_special_tokens);

  // Throws an Error if `completion` (called `name` in the text) is neither text nor a list of ids, or if no token
  // precedes it.
  ScoreTokens split(const nlohmann::json& completion, const std::string& name);
  // Returns the prompt's tokens; for a text, without the white space at its end. Empty if the prompt is empty.
  const std::vector<std::int32_t>& prompt() const { return whole_ ? *whole_ : context_ids_; }

 private:
  ScoreTokens behind_text(const std::string& completion);
  ScoreTokens behind_nothing(std::vector<std::int32_t> completion);
  std::vector<std::int32_t> own_tokens(const std::string& completion) const;
  SharedTokens shared(std::vector<std::int32_t> prompt);

  const Tokenizer& tokenizer_;
  const std::string* text_ = nullptr;  // null: the prompt is a list of ids
  std::string context_, spaces_;       // the text without the white space at its end; that white space
  bool add_special_tokens_;
  std::vector<std::int32_t> context_ids_;
  SharedTokens whole_, last_;  // the whole prompt, for completions given as ids; the last prompt used
};

}  // namespace mortise
