// runtime/cli/repl/score.hpp: /score A | B: shows the log probability of B given A.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

struct ScoreText {
  std::string prompt;
  std::string completion;
};

// Splits the text at the first bar that is not escaped; "\|" is a bar in the text. One space on the left of the bar is
// dropped. A space on its right belongs to B, so that "the sky is | blue" scores " blue" after "the sky is". Throws an
// Error if there is no bar, or nothing after it.
ScoreText parse_score(std::string_view text);

// Tokenizes A like any prompt, and B as a text of its own, as `mortise score` does.
Request score_request(const ScoreText& text, const Tokenizer& tokenizer);

// Returns a line for each token of B with its log probability and rank, then the sum.
std::string score_table(const std::vector<TokenInfo>& tokens, const Tokenizer& tokenizer);

}  // namespace mortise
