#include "tokenizer/decoder/decoder_steps.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "tokenizer/characters/byte_alphabet.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

constexpr std::size_t kByteTokenLength = 6;  // "<0x0A>"

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != kByteTokenLength || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  for (const char digit : token.substr(3, 2)) {
    if (!std::isxdigit(static_cast<unsigned char>(digit))) return std::nullopt;
    value = value * 16 + (std::isdigit(static_cast<unsigned char>(digit)) ? digit - '0' : (digit | 0x20) - 'a' + 10);
  }
  return static_cast<char>(value);
}

}  // namespace

void JoinStep::text(std::string_view piece) {
  if (!is_first_) next_.text(" ");
  next_.text(piece);
}

void JoinStep::end_token() {
  is_first_ = false;
  next_.end_token();
}

void ByteLevelStep::end_token() {
  if (!append_bytes_of(token_, bytes_)) bytes_ += token_;
  token_.clear();
  hand_on(/*is_end=*/false);
}

void ByteLevelStep::hand_on(bool is_end) {
  text_.clear();
  bytes_.erase(0, append_lossy(bytes_, is_end, text_));
  if (!text_.empty()) next_.text(text_);
}

void ByteLevelStep::finish() {
  hand_on(/*is_end=*/true);
  next_.end_token();
  next_.finish();
}

void ByteFallbackStep::text(std::string_view piece) {
  if (!is_passing_) {
    token_ += piece;
    if (token_.size() <= kByteTokenLength) return;
    end_run();
    is_passing_ = true;
    next_.text(std::exchange(token_, {}));
    return;
  }
  next_.text(piece);
}

void ByteFallbackStep::end_token() {
  if (const auto byte = is_passing_ ? std::nullopt : byte_of_token(token_)) {
    run_ += *byte;
  } else {
    end_run();
    if (!is_passing_) next_.text(token_);
    next_.end_token();
  }
  token_.clear();
  is_passing_ = false;
}

void ByteFallbackStep::end_run() {
  if (run_.empty()) return;
  if (is_valid_utf8(run_)) {
    next_.text(run_);
    next_.end_token();
  } else {
    for (std::size_t i = 0; i < run_.size(); ++i) {
      next_.text(kReplacementCharacter);
      next_.end_token();
    }
  }
  run_.clear();
}

void ByteFallbackStep::finish() {
  end_run();
  next_.finish();
}

void FuseStep::finish() {
  next_.end_token();
  next_.finish();
}

void ReplaceTextStep::text(std::string_view piece) {
  pending_ += piece;
  std::size_t begin = 0;
  for (std::size_t at = pending_.find(wanted_); at != std::string::npos; at = pending_.find(wanted_, begin)) {
    next_.text(std::string_view(pending_).substr(begin, at - begin));
    next_.text(content_);
    begin = at + wanted_.size();
  }
  const std::string_view rest = std::string_view(pending_).substr(begin);
  std::size_t withheld = std::min(rest.size(), wanted_.size() - 1);
  while (!wanted_.starts_with(rest.substr(rest.size() - withheld))) --withheld;
  next_.text(rest.substr(0, rest.size() - withheld));
  pending_.erase(0, pending_.size() - withheld);
}

void ReplaceTextStep::end_token() {
  if (!pending_.empty()) next_.text(pending_);
  pending_.clear();
  next_.end_token();
}

void ReplaceRegexStep::end_token() {
  next_.text(pattern_.replace_all(token_, content_, TimeLimit(token_.size())));
  token_.clear();
  next_.end_token();
}

void StripStep::text(std::string_view piece) {
  while (!is_started_ && num_stripped_ < start_ && piece.starts_with(content_)) {
    piece.remove_prefix(content_.size());
    ++num_stripped_;
  }
  if (piece.empty()) return;
  is_started_ = true;
  std::size_t num_trailing = 0;
  std::string_view body = piece;
  while (body.ends_with(content_)) {
    body.remove_suffix(content_.size());
    ++num_trailing;
  }
  if (!body.empty()) {
    for (; num_withheld_ > 0; --num_withheld_) next_.text(content_);
    next_.text(body);
  }
  num_withheld_ += num_trailing;
  for (; num_withheld_ > stop_; --num_withheld_) next_.text(content_);
}

void StripStep::end_token() {
  num_stripped_ = 0;
  is_started_ = false;
  num_withheld_ = 0;
  next_.end_token();
}

void MetaspaceStep::text(std::string_view piece) {
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t at = std::min(piece.find(character_, begin), piece.size());
    if (at > begin) next_.text(piece.substr(begin, at - begin));
    if (at < piece.size() && !drops_) next_.text(" ");
    begin = at + character_.size();
  }
}

void MetaspaceStep::end_token() {
  drops_ = false;
  next_.end_token();
}

void WordSuffixStep::end_token() {
  release(" ");
  const std::size_t at = token_.find(*suffix_.literal());
  next_.text(std::string_view(token_).substr(0, at));
  if (at == std::string::npos) {
    next_.end_token();
  } else {
    withheld_ = token_.substr(at);
  }
  token_.clear();
}

void WordSuffixStep::release(std::string_view replacement) {
  if (withheld_.empty()) return;
  next_.text(suffix_.replace_all(withheld_, replacement, TimeLimit(0)));
  next_.end_token();
  withheld_.clear();
}

void WordSuffixStep::finish() {
  release("");
  next_.finish();
}

}  // namespace mortise::tokenizer
