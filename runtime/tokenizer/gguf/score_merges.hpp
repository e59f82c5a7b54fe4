// runtime/tokenizer/gguf/score_merges.hpp: the merges of a SentencePiece vocabulary, which has a score for each token
// instead.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/file/tokenizer_file.hpp"

namespace mortise::tokenizer {

// SentencePiece merges two neighbours whenever the result is a token, first the one with the best score. So each
// division of a token into two tokens is a merge. The order is that of transformers: by score, the longer left half
// first. Tokens with `is_piece[id]` false (control tokens and the like) take no part, so no text can merge into one.
// `vocabulary` is finished. Throws an Error, with `where`, if the tokens are so long that this would take too much
// time.
MergeList merges_of_scores(const Vocabulary& vocabulary, std::span<const std::string_view> tokens,
                           std::span<const float> scores, const std::vector<bool>& is_piece, const std::string& where);

}  // namespace mortise::tokenizer
