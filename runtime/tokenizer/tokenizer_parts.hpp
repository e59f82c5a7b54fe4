// runtime/tokenizer/tokenizer_parts.hpp: the data of a loaded Tokenizer. Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens/added_tokens.hpp"
#include "tokenizer/decoder/decoder.hpp"
#include "tokenizer/file/tokenizer_file.hpp"
#include "tokenizer/model/model.hpp"
#include "tokenizer/normalizer/normalizer.hpp"
#include "tokenizer/post_processor/post_processor.hpp"
#include "tokenizer/pre_tokenizer/pre_tokenizer.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// Everything that a Tokenizer consists of. Constant once loaded; any thread may use it.
struct Tokenizer::Parts {
  tokenizer::TokenizerFile file;
  tokenizer::AddedTokens added_tokens;
  std::unique_ptr<const tokenizer::Normalizer> normalizer;       // may be null
  std::unique_ptr<const tokenizer::PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<const tokenizer::Model> model;
  std::unique_ptr<const tokenizer::PostProcessor> post_processor;  // may be null
  tokenizer::DecoderChain decoders;
  std::optional<std::int32_t> bos_id;
  std::optional<std::int32_t> eos_id;
  std::string chat_template;
  std::string config = "{}";
  std::map<std::string, std::string> special_token_texts;
  std::string fingerprint;

  // Finds special tokens only where `special` covers them. Returns early once there are more than `enough` ids.
  std::vector<std::int32_t> encode(std::string_view text, const tokenizer::TextRanges& special, bool add_special_tokens,
                                   std::size_t enough) const;
  // Append the ids of a part of a text that has no raw added tokens. The first finds special tokens in some ranges, the
  // second nowhere, the third everywhere or nowhere.
  void encode_mixed(std::string_view text, const tokenizer::TextRanges& special, bool starts_input,
                    const tokenizer::TimeLimit& time, std::vector<std::int32_t>& ids) const;
  void encode_plain(tokenizer::WorkingText part, std::vector<std::int32_t>& ids) const;
  void encode_section(tokenizer::WorkingText section, bool special, std::vector<std::int32_t>& ids) const;
  // `part` is a view into the normalised text.
  void encode_normalized(const tokenizer::WorkingText& normalized, std::string_view part, bool special,
                         std::vector<std::int32_t>& ids) const;
  // Passes a token to the stream, unless it is unknown, or special and skipped.
  void decode_token(std::int32_t id, bool skip_special_tokens, tokenizer::DecodeStream& stream) const;
};

}  // namespace mortise
