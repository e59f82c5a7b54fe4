// runtime/tokenizer/tokenizer_parts.hpp: what a loaded Tokenizer owns; private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.hpp"
#include "tokenizer/decoder.hpp"
#include "tokenizer/model.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/post_processor.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_file.hpp"

namespace mortise {

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
  std::string fingerprint;

  // Appends the ids of a stretch of text without raw added tokens.
  void encode_section(tokenizer::WorkingText section, std::vector<std::int32_t>& ids) const;
  // Hands a token to the stream; unknown ids and, if wanted, special tokens are left out.
  void decode_token(std::int32_t id, bool skip_special_tokens, tokenizer::DecodeStream& stream) const;
};

}  // namespace mortise
