// A tokenizer and a text for it. Input: tokenizer.json, the text and tokenizer_config.json, cut by lines of %%%. What
// loads then encodes the text and decodes ids, whole and as a stream.
#include "error.hpp"
#include "fuzz_input.hpp"
#include "tokenizer/characters/utf8.hpp"
#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace {

using mortise::fuzz::require;

void decode(const mortise::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  for (const bool skip_special_tokens : {false, true}) {
    const std::string whole = tokenizer.decode(ids, skip_special_tokens);
    require(mortise::tokenizer::is_valid_utf8(whole));
    mortise::IncrementalDecoder stream(tokenizer, skip_special_tokens);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    require(streamed == whole);
  }
}

// Ids of all kinds: of tokens, of holes, and of nothing.
std::vector<std::int32_t> ids_from(std::string_view text, std::size_t vocab_size) {
  std::vector<std::int32_t> ids;
  for (const char c : text.substr(0, 64)) {
    ids.push_back(static_cast<std::int32_t>(static_cast<unsigned char>(c) * 2654435761u % (vocab_size + 2)));
  }
  ids.insert(ids.end(), {-1, INT32_MAX, INT32_MIN});
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mortise::fuzz::ScratchFolder folder;
  const auto parts = mortise::fuzz::parts_of(mortise::fuzz::text_of(data, size), 3);
  folder.write("tokenizer.json", parts[0]);
  folder.remove("tokenizer_config.json");
  if (!parts[2].empty()) folder.write("tokenizer_config.json", parts[2]);
  try {
    const mortise::Tokenizer tokenizer = mortise::Tokenizer::load(folder.path());
    decode(tokenizer, ids_from(parts[1], tokenizer.vocab_size()));
    for (const bool add_special_tokens : {false, true}) {
      const std::vector<std::int32_t> ids = tokenizer.encode(parts[1], add_special_tokens);
      for (const std::int32_t id : ids) require(id >= 0);
      decode(tokenizer, ids);
    }
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
