#include "sampling/choices.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "error.hpp"
#include "tokenizer/incremental_decoder.hpp"

namespace mortise {
namespace {

// Choices may be long; a message shows their beginning, whole characters of it.
std::string shown(std::string_view text) {
  constexpr std::size_t kMaxBytes = 40;
  if (text.size() <= kMaxBytes) return fmt::format("\"{}\"", text);
  std::size_t end = kMaxBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return fmt::format("\"{}...\"", text.substr(0, end));
}

std::string num_tokens(std::int64_t n) {
  return fmt::format("{} token{}", n, n == 1 ? "" : "s");
}

std::string text_behind(const ChoiceContext& context, const SamplingParams& params, std::span<const std::int32_t> ids) {
  IncrementalDecoder decoder(context.tokenizer, params.skip_special_tokens, context.before);
  std::string text;
  for (std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

// The tokens of `text` where it follows `anchor`; nullopt where a token has parts of both.
std::optional<std::vector<std::int32_t>> encode_behind(const std::string& anchor, const Tokenizer& tokenizer,
                                                       const std::string& text) {
  const std::vector<std::int32_t> before = tokenizer.encode(anchor, /*add_special_tokens=*/false);
  std::vector<std::int32_t> ids = tokenizer.encode(anchor + text, /*add_special_tokens=*/false);
  if (ids.size() <= before.size() || !std::equal(before.begin(), before.end(), ids.begin())) return std::nullopt;
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return ids;
}

std::vector<std::int32_t> tokenise(const ChoiceContext& context, const SamplingParams& params, std::size_t index) {
  const std::string& choice = params.choices[index];
  std::vector<std::int32_t> ids = context.tokenizer.encode(choice, /*add_special_tokens=*/false);
  const std::string text = text_behind(context, params, ids);
  if (!ids.empty() && text == choice) return ids;
  // Some tokenizers put a space before what they take for the beginning of a text.
  for (const char* anchor : {"\n", "."}) {
    auto others = encode_behind(anchor, context.tokenizer, choice);
    if (others && text_behind(context, params, *others) == choice) return *std::move(others);
  }
  fail(
      "choices[{}]: {} cannot be generated as it is: this model's tokenizer makes {} of it behind this prompt; "
      "write it as the tokenizer does, or leave it out",
      index, shown(choice), shown(text));
}

void check(const ChoiceContext& context, const SamplingParams& params, std::size_t index,
           std::span<const std::int32_t> ids) {
  const std::string choice = fmt::format("choices[{}]: {}", index, shown(params.choices[index]));
  for (std::int32_t id : ids) {
    if (id >= context.vocab_size) {
      fail("{} has token id {}, and this model's ids are from 0 to {}; leave it out", choice, id,
           context.vocab_size - 1);
    }
    if (std::binary_search(context.end_tokens.begin(), context.end_tokens.end(), id)) {
      fail(
          "{} has token id {}, which ends an answer (an end token of the model or one of stop_token_ids); leave out "
          "one of them",
          choice, id);
    }
  }
  for (const std::string& stop : params.stop) {
    if (params.choices[index].find(stop) != std::string::npos) {
      fail("{} has the stop string {}, so it would be cut; leave out one of them", choice, shown(stop));
    }
  }
  const auto length = static_cast<std::int64_t>(ids.size());
  if (length > context.max_tokens) {
    fail("{} takes {}, and {} may be generated; raise max_tokens, or shorten the prompt if max_model_len is the limit",
         choice, num_tokens(length), context.max_tokens);
  }
  if (length < params.min_tokens) {
    fail("{} takes {}, fewer than min_tokens ({}); lower min_tokens or leave it out", choice, num_tokens(length),
         params.min_tokens);
  }
}

}  // namespace

ChoiceTrie make_choice_trie(const SamplingParams& params, const ChoiceContext& context) {
  std::vector<std::vector<std::int32_t>> sequences;
  sequences.reserve(params.choices.size());
  for (std::size_t i = 0; i < params.choices.size(); ++i) {
    sequences.push_back(tokenise(context, params, i));
    check(context, params, i, sequences.back());
  }
  if (context.end_tokens.empty()) {
    if (const auto pair = find_continued_choice(sequences)) {
      fail(
          "choices[{}]: {} is the beginning of choices[{}], and this model has no end token that could tell them "
          "apart; name one in stop_token_ids",
          pair->first, shown(params.choices[pair->first]), pair->second);
    }
  }
  return ChoiceTrie(std::move(sequences), {context.end_tokens.begin(), context.end_tokens.end()});
}

}  // namespace mortise
