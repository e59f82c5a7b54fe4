#include "tokenizer/added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode_sets.hpp"
#include "tokenizer/utf8.hpp"

namespace mortise::tokenizer {
namespace {

std::size_t without_trailing_white_space(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t begin = previous_character(text, end);
    std::size_t at = begin;
    if (!is_white_space(next_code_point(text, at))) break;
    end = begin;
  }
  return end;
}

std::size_t behind_white_space(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!is_white_space(next_code_point(text, next))) break;
    begin = next;
  }
  return begin;
}

}  // namespace

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

void AddedTokens::add(AddedToken token, const Vocabulary& vocabulary) {
  if (token.content.empty()) return;
  if (!next_id_) next_id_ = static_cast<std::int32_t>(vocabulary.num_tokens());
  std::optional<std::int32_t> id = find(token.content);
  if (!id) id = vocabulary.find(token.content);
  if (!id) id = (*next_id_)++;
  ids_[token.content] = *id;
  by_id_[*id] = std::move(token);
}

void AddedTokens::finish(const Normalizer* normalizer) {
  for (const auto& [id, token] : by_id_) {
    if (token.single_word && !word_) word_ = Regex::from_pcre2_syntax(rust_word_set().bracketed(), "single_word");
    std::string text = token.content;
    if (token.normalized && normalizer) normalizer->apply(text);
    (token.normalized ? normalized_ : raw_).add(text, id);
  }
  raw_.finish();
  normalized_.finish();
}

bool AddedTokens::is_single_word(std::string_view text, const AddedTokenMatcher::Found& found) const {
  std::vector<Match> matches;
  const auto is_word = [&](std::size_t at) {
    word_->find_all(text.substr(at, character_length(text[at])), matches);
    return !matches.empty();
  };
  if (found.begin > 0 && is_word(previous_character(text, found.begin))) return false;
  return found.end == text.size() || !is_word(found.end);
}

// Deliberately as `tokenizers` does it: a token whose white space a neighbour with rstrip has swallowed is still taken.
void AddedTokens::split(std::string_view text, const AddedTokenMatcher& matcher, std::vector<Section>& sections) const {
  sections.clear();
  std::size_t done = 0;
  std::vector<AddedTokenMatcher::Found> all_found;
  matcher.find_all(text, all_found);
  for (const auto& found : all_found) {
    const AddedToken& token = by_id_.at(found.id);
    if (token.single_word && !is_single_word(text, found)) continue;
    std::size_t begin = found.begin;
    std::size_t end = found.end;
    if (token.lstrip) begin = std::max(without_trailing_white_space(text, begin), done);
    if (token.rstrip) end = behind_white_space(text, end);
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
