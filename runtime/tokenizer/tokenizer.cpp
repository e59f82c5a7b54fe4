#include "tokenizer/tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"
#include "tokenizer/tokenizer_parts.hpp"

namespace mortise {
namespace {

using tokenizer::AddedTokens;
using tokenizer::TextRanges;

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;  // positions within a piece have 32 bits

void check_size(std::size_t num_bytes) {
  if (num_bytes > kMaxTextBytes) {
    fail("a text of {} bytes cannot be tokenized; the limit is {}", num_bytes, kMaxTextBytes);
  }
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  check_size(text.size());
  std::string valid;
  if (!tokenizer::is_valid_utf8(text)) {
    tokenizer::append_lossy(text, /*is_end=*/true, valid);
    text = valid;
  }
  return parts_->encode(text, TextRanges::everywhere(), add_special_tokens, static_cast<std::size_t>(-1));
}

std::vector<std::int32_t> Tokenizer::encode(const SegmentedText& segments, bool add_special_tokens,
                                            std::size_t enough) const {
  std::string text;
  TextRanges special;
  for (const TextSegment& segment : segments) {
    const std::size_t begin = text.size();
    tokenizer::append_lossy(segment.text, /*is_end=*/true, text);
    check_size(text.size());
    if (segment.special_tokens) special.add(begin, text.size());
  }
  return parts_->encode(text, special, add_special_tokens, enough);
}

std::vector<std::size_t> Tokenizer::cuts_within_special_tokens(std::string_view text) const {
  return parts_->added_tokens.cuts_within_special(text);
}

std::vector<std::int32_t> Tokenizer::Parts::encode(std::string_view text, const TextRanges& special,
                                                   bool add_special_tokens, std::size_t enough) const {
  const tokenizer::TimeLimit time(text.size());
  std::vector<std::int32_t> ids;
  std::vector<AddedTokens::Section> sections;
  added_tokens.split_raw(text, special, sections);
  for (const auto& section : sections) {
    if (ids.size() > enough) return ids;
    if (section.id >= 0) {
      ids.push_back(section.id);
      continue;
    }
    const auto begin = static_cast<std::size_t>(section.text.data() - text.data());
    const std::size_t end = begin + section.text.size();
    if (special.cover(begin, end)) {
      encode_section(tokenizer::WorkingText(section.text, begin == 0, time), /*special=*/true, ids);
    } else {
      encode_mixed(section.text, special.within(begin, end), begin == 0, time, ids);
    }
  }
  if (post_processor) post_processor->apply(ids, add_special_tokens);
  return ids;
}

// Special tokens with `normalized` cannot be located in the original text, so the text is cut where one may begin or
// end.
void Tokenizer::Parts::encode_mixed(std::string_view text, const TextRanges& special, bool starts_input,
                                    const tokenizer::TimeLimit& time, std::vector<std::int32_t>& ids) const {
  std::vector<tokenizer::AddedTokenMatcher::Found> found;
  added_tokens.find_special_normalized(text, special, found);
  std::size_t done = 0;
  const auto encode_part = [&](std::size_t end, bool is_special) {
    if (done == end) return;
    const tokenizer::WorkingText part(text.substr(done, end - done), starts_input && done == 0, time);
    is_special ? encode_section(part, true, ids) : encode_plain(part, ids);
    done = end;
  };
  for (const auto& token : found) {
    encode_part(token.begin, /*is_special=*/false);
    encode_part(token.end, /*is_special=*/true);
  }
  encode_part(text.size(), /*is_special=*/false);
}

// If the model itself makes a special token of a text that spells it (its vocabulary has the token, and ignore_merges
// is set), the text is cut inside everything that spells one. This applies to the text that the model sees: a
// normalizer may turn "＜" into "<".
void Tokenizer::Parts::encode_plain(tokenizer::WorkingText part, std::vector<std::int32_t>& ids) const {
  if (normalizer) normalizer->apply(part);
  const std::size_t before = ids.size();
  encode_normalized(part, part.text, /*special=*/false, ids);
  const bool spells_one =
      std::any_of(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), [&](std::int32_t id) {
        const tokenizer::AddedToken* token = added_tokens.token(id);
        // The token may also stand for an unknown character.
        return token != nullptr && token->special && part.text.find(token->content) != std::string::npos;
      });
  if (!spells_one) return;
  ids.resize(before);
  std::size_t done = 0;
  std::vector<std::size_t> cuts = added_tokens.cuts_within_special(part.text);
  cuts.push_back(part.text.size());
  for (const std::size_t cut : cuts) {
    encode_normalized(part, std::string_view(part.text).substr(done, cut - done), /*special=*/false, ids);
    done = cut;
  }
}

void Tokenizer::Parts::encode_section(tokenizer::WorkingText section, bool special,
                                      std::vector<std::int32_t>& ids) const {
  if (normalizer) normalizer->apply(section);
  encode_normalized(section, section.text, special, ids);
}

void Tokenizer::Parts::encode_normalized(const tokenizer::WorkingText& whole, std::string_view part, bool special,
                                         std::vector<std::int32_t>& ids) const {
  std::vector<AddedTokens::Section> sections;
  added_tokens.split_normalized(part, special ? TextRanges::everywhere() : TextRanges(), sections);
  for (const auto& section : sections) {
    if (section.id >= 0) {
      ids.push_back(section.id);
      continue;
    }
    const auto begin = static_cast<std::size_t>(section.text.data() - whole.text.data());
    const std::size_t origin_size = whole.origin_end - std::min(begin, whole.origin_end);
    tokenizer::PreTokenized pieces(section.text, origin_size, whole);
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

const std::map<std::string, std::string>& Tokenizer::special_token_texts() const {
  return parts_->special_token_texts;
}

const std::string& Tokenizer::config() const {
  return parts_->config;
}

const std::string& Tokenizer::fingerprint() const {
  return parts_->fingerprint;
}

}  // namespace mortise
