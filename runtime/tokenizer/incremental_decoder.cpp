#include "tokenizer/incremental_decoder.hpp"

#include "tokenizer/tokenizer_parts.hpp"

namespace mortise {

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : parts_(tokenizer.parts_.get()),
      stream_(std::make_unique<tokenizer::DecodeStream>(parts_->decoders)),
      skip_special_tokens_(skip_special_tokens) {}
IncrementalDecoder::IncrementalDecoder(IncrementalDecoder&&) noexcept = default;
IncrementalDecoder& IncrementalDecoder::operator=(IncrementalDecoder&&) noexcept = default;
IncrementalDecoder::~IncrementalDecoder() = default;

std::string IncrementalDecoder::push(std::int32_t id) {
  parts_->decode_token(id, skip_special_tokens_, *stream_);
  return stream_->take_text();
}

std::string IncrementalDecoder::finish() {
  stream_->finish();
  return stream_->take_text();
}

}  // namespace mortise
