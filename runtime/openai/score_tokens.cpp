#include "openai/score_tokens.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "openai/body.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise {
namespace {

// Python's str.rstrip also removes four separators that Unicode does not count as white space.
std::size_t stripped_size(std::string_view text) {
  std::size_t end = text.size();
  for (;;) {
    const std::size_t begin = tokenizer::white_space_begin(text, end, 0);
    const bool separator = begin == end && end > 0 && text[end - 1] >= '\x1c' && text[end - 1] <= '\x1f';
    if (begin == end && !separator) return end;
    end = separator ? end - 1 : begin;
  }
}

// The token in front of a completion without prompt.
std::optional<std::int32_t> prefix_token(const Tokenizer& tokenizer) {
  return tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eos_id();
}

// Whether the text spells out the first token, which is then not added again.
bool begins_with_prefix_token(std::string_view text, const Tokenizer& tokenizer) {
  const std::optional<std::int32_t> id = prefix_token(tokenizer);
  if (!id) return false;
  const std::string spelled = tokenizer.decode(std::span(&*id, 1), /*skip_special_tokens=*/false);
  return !spelled.empty() && text.starts_with(spelled);
}

std::vector<std::int32_t> from(const std::vector<std::int32_t>& ids, std::size_t begin) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(std::min(begin, ids.size())), ids.end()};
}

}  // namespace

ScoreSplitter::ScoreSplitter(const nlohmann::json& prompt, const Tokenizer& tokenizer, bool add_special_tokens)
    : tokenizer_(tokenizer), add_special_tokens_(add_special_tokens) {
  if (!prompt.is_string()) {
    whole_ = shared(read_tokens(prompt, "prompt", tokenizer_, add_special_tokens_));
    return;
  }
  text_ = &prompt.get_ref<const std::string&>();
  const std::size_t size = stripped_size(*text_);
  context_ = text_->substr(0, size);
  spaces_ = text_->substr(size);
  add_special_tokens_ = add_special_tokens_ && !begins_with_prefix_token(context_, tokenizer_);
  context_ids_ = tokenizer_.encode(context_, add_special_tokens_);
}

ScoreTokens ScoreSplitter::split(const nlohmann::json& completion, const std::string& name) {
  if (text_ != nullptr && completion.is_string()) {
    const std::string text = spaces_ + completion.get_ref<const std::string&>();
    return context_.empty() ? behind_nothing(own_tokens(text)) : behind_text(text);
  }
  if (!whole_) whole_ = shared(tokenizer_.encode(*text_, add_special_tokens_));
  std::vector<std::int32_t> ids = read_tokens(completion, name, tokenizer_, /*add_special_tokens=*/false);
  const bool empty = text_ != nullptr ? text_->empty() : whole_->empty();
  if (empty) return behind_nothing(std::move(ids));
  return {whole_, std::move(ids)};
}

ScoreTokens ScoreSplitter::behind_text(const std::string& completion) {
  const std::vector<std::int32_t> both = tokenizer_.encode(context_ + completion, add_special_tokens_);
  if (context_ids_.empty()) return behind_nothing(own_tokens(completion));  // normalisation removed the whole prompt
  if (both.size() > context_ids_.size() || completion.empty()) {
    return {shared(context_ids_), from(both, context_ids_.size())};
  }
  const auto common = std::ranges::mismatch(context_ids_, both).in1 - context_ids_.begin();
  if (common == 0) return behind_nothing(own_tokens(context_ + completion));
  return {shared({context_ids_.begin(), context_ids_.begin() + common}), from(both, static_cast<std::size_t>(common))};
}

std::vector<std::int32_t> ScoreSplitter::own_tokens(const std::string& completion) const {
  return tokenizer_.encode(completion, /*add_special_tokens=*/false);
}

ScoreTokens ScoreSplitter::behind_nothing(std::vector<std::int32_t> ids) {
  const std::optional<std::int32_t> prefix = prefix_token(tokenizer_);
  if (!prefix) {
    fail(
        "prompt is empty, and this model's tokenizer has neither a first token nor an end token that could stand "
        "before the completion; give a prompt");
  }
  if (!ids.empty() && ids.front() == *prefix) ids.erase(ids.begin());
  return {shared({*prefix}), std::move(ids)};
}

SharedTokens ScoreSplitter::shared(std::vector<std::int32_t> prompt) {
  if (!last_ || *last_ != prompt) last_ = std::make_shared<const std::vector<std::int32_t>>(std::move(prompt));
  return last_;
}

}  // namespace mortise
