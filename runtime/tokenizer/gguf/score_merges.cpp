#include "tokenizer/gguf/score_merges.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

// Each division of a token looks its halves up, which reads them. Published vocabularies take some 10 million bytes.
constexpr std::uint64_t kMaxWork = std::uint64_t{1} << 30;

struct Candidate {
  float score;
  std::uint32_t left_characters, right_characters;
  std::int32_t token, left, right;

  // Best first.
  auto key() const {
    return std::tuple(-score, -static_cast<std::int64_t>(left_characters), -static_cast<std::int64_t>(right_characters),
                      token, left, right);
  }
};

}  // namespace

MergeList merges_of_scores(const Vocabulary& vocabulary, std::span<const std::string_view> tokens,
                           std::span<const float> scores, const std::vector<bool>& is_piece, const std::string& where) {
  std::uint64_t work = 0;
  std::vector<Candidate> candidates;
  const auto piece = [&](std::string_view text) -> std::int32_t {
    const auto id = vocabulary.find(text);
    return id && is_piece[static_cast<std::size_t>(*id)] ? *id : -1;
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i];
    work += std::uint64_t{token.size()} * token.size();
    if (work > kMaxWork) {
      fail(
          "{}: the tokens of 'tokenizer.ggml.tokens' are longer than in any model; the file is damaged: download it "
          "again",
          where);
    }
    if (!is_piece[i]) continue;
    std::uint32_t characters = 0, seen = 0;
    for (std::size_t at = 0; at < token.size(); at += character_length(token[at])) ++characters;
    for (std::size_t at = character_length(token.empty() ? 'a' : token[0]); at < token.size();
         at += character_length(token[at])) {
      ++seen;
      const std::int32_t left = piece(token.substr(0, at));
      if (left < 0) continue;
      const std::int32_t right = piece(token.substr(at));
      if (right < 0) continue;
      candidates.push_back({scores[i], seen, characters - seen, static_cast<std::int32_t>(i), left, right});
    }
  }
  std::ranges::sort(candidates, {}, &Candidate::key);
  MergeList merges;
  for (const Candidate& candidate : candidates) {
    merges.add(tokens[static_cast<std::size_t>(candidate.left)], tokens[static_cast<std::size_t>(candidate.right)]);
  }
  return merges;
}

}  // namespace mortise::tokenizer
