#include "tokenizer/incremental_decoder.hpp"

#include <algorithm>
#include <utility>

#include "tokenizer/tokenizer_parts.hpp"

namespace mortise {
// Keeps the end of `ids`, which determines how a following text is decoded: from the last token on that is text by
// itself and not part of a character.
DecodedPrefix decode_prefix(const Tokenizer& tokenizer, bool skip_special_tokens, std::span<const std::int32_t> ids) {
  constexpr std::size_t kLongest = 1024;  // bounds the length for prompts of broken characters
  std::size_t length = 0;
  while (length < std::min(ids.size(), kLongest)) {
    ++length;
    const std::string text = tokenizer.decode(ids.last(length).first(1), skip_special_tokens);
    if (!text.empty() && text.find("\uFFFD") == std::string::npos) break;
  }
  const auto end = ids.last(length);
  return {{end.begin(), end.end()}, tokenizer.decode(end, skip_special_tokens)};
}

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : parts_(tokenizer.parts_.get()),
      stream_(std::make_unique<tokenizer::DecodeStream>(parts_->decoders)),
      skip_special_tokens_(skip_special_tokens) {}
IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens,
                                       const DecodedPrefix& before)
    : IncrementalDecoder(tokenizer, skip_special_tokens) {
  std::string text;
  for (std::int32_t id : before.ids) text += push(id);
  due_ = before.text.substr(text.size());
}
IncrementalDecoder::IncrementalDecoder(IncrementalDecoder&&) noexcept = default;
IncrementalDecoder& IncrementalDecoder::operator=(IncrementalDecoder&&) noexcept = default;
IncrementalDecoder::~IncrementalDecoder() = default;

std::string IncrementalDecoder::push(std::int32_t id) {
  parts_->decode_token(id, skip_special_tokens_, *stream_);
  return take_text();
}

std::string IncrementalDecoder::finish() {
  stream_->finish();
  return take_text();
}

std::string IncrementalDecoder::take_text() {
  std::string text = stream_->take_text();
  if (due_.empty() || text.empty()) return text;
  const std::size_t shared = std::min(due_.size(), text.size());
  // The text differs: a character that began in `before` is complete only now.
  if (text.compare(0, shared, due_, 0, shared) != 0) {
    due_.clear();
    return text;
  }
  due_.erase(0, shared);
  return text.substr(shared);
}

}  // namespace mortise
