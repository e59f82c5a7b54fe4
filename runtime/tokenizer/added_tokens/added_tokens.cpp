#include "tokenizer/added_tokens/added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"
#include "tokenizer/regex/unicode_sets.hpp"

namespace mortise::tokenizer {

AddedToken read_added_token(const ConfigNode& node) {
  AddedToken token;
  token.content = node.at("content").as_string();
  token.special = node.bool_or("special", false);
  token.single_word = node.bool_or("single_word", false);
  token.lstrip = node.bool_or("lstrip", false);
  token.rstrip = node.bool_or("rstrip", false);
  token.normalized = node.bool_or("normalized", !token.special);
  return token;
}

void AddedTokens::add(std::span<const AddedToken> tokens, const Vocabulary& vocabulary) {
  for (const AddedToken& token : tokens) {
    if (token.special && !token.content.empty() && special_texts_.insert(token.content).second) {
      special_.push_back(token);
    }
  }
  for (const AddedToken& token : tokens) {
    if (!token.content.empty()) add(token, vocabulary);
  }
}

void AddedTokens::add(const AddedToken& token, const Vocabulary& vocabulary) {
  std::optional<std::int32_t> id = find(token.content);
  if (id && by_id_.at(*id) == token) return;
  if (!id) id = vocabulary.find(token.content);
  if (!id) id = std::max(max_given_id_ + 1, static_cast<std::int32_t>(vocabulary.num_tokens()));
  ids_[token.content] = *id;
  max_given_id_ = std::max(max_given_id_, *id);
  by_id_[*id] = token;
  if (!special_texts_.contains(token.content)) plain_.push_back(token);
}

void AddedTokens::finish(const Normalizer* normalizer) {
  const TimeLimit time(0);
  for (const auto* tokens : {&special_, &plain_}) {
    for (const AddedToken& token : *tokens) {
      WorkingText text(token.content, /*starts_input=*/true, time);
      if (token.normalized && normalizer) normalizer->apply(text);
      if (text.text.empty())
        fail("added token \"{}\": the normalizer removes all of it, so it can never match", token.content);
      (token.normalized ? normalized_ : raw_).add(text.text, ids_.at(token.content));
      if (tokens == &special_) special_written_.add(token.content, ids_.at(token.content));
      if (token.normalized && tokens == &special_) special_normalized_.add(token.content, ids_.at(token.content));
    }
  }
  for (auto& [id, token] : by_id_) {
    token.special = special_texts_.contains(token.content);
    if (token.single_word && !word_) word_ = Regex::from_pcre2_syntax(rust_word_set().bracketed(), "single_word");
  }
  raw_.finish();
  normalized_.finish();
  special_written_.finish();
  special_normalized_.finish();
}

void AddedTokens::find_special_normalized(std::string_view text, const TextRanges& special,
                                          std::vector<AddedTokenMatcher::Found>& found) const {
  special_normalized_.find_all(text, found, [&](const auto& match) { return special.cover(match.begin, match.end); });
}

bool AddedTokens::is_single_word(std::string_view text, const AddedTokenMatcher::Found& found) const {
  std::vector<Match> matches;
  const auto is_word = [&](std::size_t at) {
    word_->find_all(text.substr(at, character_length(text[at])), TimeLimit(0), matches);
    return !matches.empty();
  };
  if (found.begin > 0 && is_word(previous_character(text, found.begin))) return false;
  return found.end == text.size() || !is_word(found.end);
}

std::vector<std::size_t> AddedTokens::cuts_within_special(std::string_view text) const {
  std::vector<std::size_t> cuts;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (special_written_.is_at(text, at)) cuts.push_back(at + character_length(text[at]));
  }
  return cuts;
}

// The same as `tokenizers` on purpose: a token of white space that a neighbour with rstrip has swallowed is still
// taken, unless it has lstrip, which leaves nothing of it.
void AddedTokens::split(std::string_view text, const AddedTokenMatcher& matcher, const TextRanges& special,
                        std::vector<Section>& sections) const {
  sections.clear();
  std::size_t done = 0;
  std::size_t swallowed_end = 0;  // end of the last swallowed white space; tokens inside it swallow up to there, too
  std::vector<AddedTokenMatcher::Found> all_found;
  AddedTokenMatcher::Allowed allowed;
  if (!special.cover(0, text.size())) {
    allowed = [&](const auto& found) { return !by_id_.at(found.id).special || special.cover(found.begin, found.end); };
  }
  matcher.find_all(text, all_found, allowed);
  for (const auto& found : all_found) {
    const AddedToken& token = by_id_.at(found.id);
    if (token.single_word && !is_single_word(text, found)) continue;
    std::size_t begin = found.begin;
    std::size_t end = found.end;
    if (token.lstrip) begin = std::max(white_space_begin(text, begin, done), done);
    if (token.rstrip) {
      if (end > swallowed_end) swallowed_end = white_space_end(text, end);
      end = swallowed_end;
    }
    if (begin >= end) continue;
    if (done < begin) sections.push_back({text.substr(done, begin - done), -1});
    sections.push_back({{}, found.id});
    done = end;
  }
  if (done < text.size()) sections.push_back({text.substr(done), -1});
}

std::optional<std::int32_t> AddedTokens::find(std::string_view content) const {
  const auto it = ids_.find(std::string(content));
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

const AddedToken* AddedTokens::token(std::int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &it->second;
}

std::int32_t AddedTokens::max_id() const {
  return by_id_.empty() ? -1 : by_id_.rbegin()->first;
}

}  // namespace mortise::tokenizer
