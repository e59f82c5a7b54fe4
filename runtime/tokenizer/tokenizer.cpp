#include "tokenizer/tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "tokenizer/tokenizer_parts.hpp"
#include "tokenizer/utf8.hpp"

namespace mortise {
namespace {

using tokenizer::AddedTokens;

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;  // positions within a piece are 32 bits wide

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  if (text.size() > kMaxTextBytes) {
    fail("a text of {} bytes cannot be tokenized; the limit is {}", text.size(), kMaxTextBytes);
  }
  std::string valid;
  if (!tokenizer::is_valid_utf8(text)) {
    tokenizer::append_lossy(text, /*is_end=*/true, valid);
    text = valid;
  }
  const tokenizer::TimeLimit time(text.size());
  std::vector<std::int32_t> ids;
  std::vector<AddedTokens::Section> sections;
  parts_->added_tokens.split_raw(text, sections);
  for (const auto& section : sections) {
    if (section.id >= 0) {
      ids.push_back(section.id);
    } else {
      const bool starts_input = section.text.data() == text.data();
      parts_->encode_section(tokenizer::WorkingText(section.text, starts_input, time), ids);
    }
  }
  if (parts_->post_processor) parts_->post_processor->apply(ids, add_special_tokens);
  return ids;
}

void Tokenizer::Parts::encode_section(tokenizer::WorkingText normalized, std::vector<std::int32_t>& ids) const {
  if (normalizer) normalizer->apply(normalized);
  std::vector<AddedTokens::Section> sections;
  added_tokens.split_normalized(normalized.text, sections);
  for (const auto& section : sections) {
    if (section.id >= 0) {
      ids.push_back(section.id);
      continue;
    }
    const auto begin = static_cast<std::size_t>(section.text.data() - normalized.text.data());
    const std::size_t origin_size = normalized.origin_end - std::min(begin, normalized.origin_end);
    tokenizer::PreTokenized pieces(section.text, origin_size, normalized);
    if (pre_tokenizer) pre_tokenizer->apply(pieces);
    model->tokenize(pieces, ids);
  }
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  tokenizer::DecodeStream stream(parts_->decoders);
  for (const std::int32_t id : ids) parts_->decode_token(id, skip_special_tokens, stream);
  stream.finish();
  return stream.take_text();
}

void Tokenizer::Parts::decode_token(std::int32_t id, bool skip_special_tokens, tokenizer::DecodeStream& stream) const {
  if (const tokenizer::AddedToken* added = added_tokens.token(id)) {
    if (!added->special || !skip_special_tokens) stream.token(added->content);
  } else if (const auto text = file.vocabulary.text(id)) {
    stream.token(*text);
  }
}

std::optional<std::int32_t> Tokenizer::token_id(std::string_view token) const {
  if (const auto id = parts_->added_tokens.find(token)) return id;
  return parts_->file.vocabulary.find(token);
}

std::optional<std::string_view> Tokenizer::token(std::int32_t id) const {
  if (const tokenizer::AddedToken* added = parts_->added_tokens.token(id)) return added->content;
  return parts_->file.vocabulary.text(id);
}

bool Tokenizer::is_special(std::int32_t id) const {
  const tokenizer::AddedToken* added = parts_->added_tokens.token(id);
  return added && added->special;
}

std::size_t Tokenizer::vocab_size() const {
  return std::max(parts_->file.vocabulary.max_id_plus_one(),
                  static_cast<std::size_t>(parts_->added_tokens.max_id() + 1));
}

std::optional<std::int32_t> Tokenizer::bos_id() const {
  return parts_->bos_id;
}
std::optional<std::int32_t> Tokenizer::eos_id() const {
  return parts_->eos_id;
}
const std::string& Tokenizer::chat_template() const {
  return parts_->chat_template;
}

const std::string& Tokenizer::fingerprint() const {
  return parts_->fingerprint;
}

}  // namespace mortise
