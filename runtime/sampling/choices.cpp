#include "sampling/choices.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "error.hpp"
#include "tokenizer/incremental_decoder.hpp"

namespace mortise {
namespace {

// A choice for a message: its first characters or ids, since it may be long.
std::string shown(std::string_view text) {
  constexpr std::size_t kMaxBytes = 40;
  if (text.size() <= kMaxBytes) return fmt::format("\"{}\"", text);
  std::size_t end = kMaxBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return fmt::format("\"{}...\"", text.substr(0, end));
}

std::string shown_choice(const GuidedChoice& choice) {
  if (const auto* text = std::get_if<std::string>(&choice)) return shown(*text);
  constexpr std::size_t kMaxIds = 8;
  const std::span<const std::int32_t> ids = std::get<1>(choice);
  return fmt::format("[{}{}]", fmt::join(ids.first(std::min(ids.size(), kMaxIds)), ", "),
                     ids.size() > kMaxIds ? ", ..." : "");
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

// A text in front of choices, for tokenising them.
struct Anchor {
  Anchor(std::string anchor_text, const Tokenizer& tokenizer)
      : text(std::move(anchor_text)), ids(tokenizer.encode(text, /*add_special_tokens=*/false)) {}

  // The tokens of `choice` after this text; nullopt if a token spans both.
  std::optional<std::vector<std::int32_t>> encode(const Tokenizer& tokenizer, const std::string& choice) const {
    std::vector<std::int32_t> both = tokenizer.encode(text + choice, /*add_special_tokens=*/false);
    if (both.size() <= ids.size() || !std::equal(ids.begin(), ids.end(), both.begin())) return std::nullopt;
    both.erase(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(ids.size()));
    return both;
  }

  std::string text;
  std::vector<std::int32_t> ids;
};

// The end of the prompt, nothing, a line break and a full stop. (Some tokenizers put a space in front of any text that
// they take for the beginning.)
std::vector<Anchor> anchors_of(const ChoiceContext& context) {
  std::vector<Anchor> anchors;
  if (Anchor end(context.before.text, context.tokenizer); end.ids == context.before.ids) {
    anchors.push_back(std::move(end));
  }
  for (const char* text : {"", "\n", "."}) anchors.emplace_back(text, context.tokenizer);
  return anchors;
}

std::vector<std::int32_t> tokenise(const ChoiceContext& context, const SamplingParams& params, std::size_t index,
                                   std::span<const Anchor> anchors) {
  if (const auto* ids = std::get_if<1>(&params.choices[index])) return *ids;
  const auto& choice = std::get<std::string>(params.choices[index]);
  std::string made;  // the text of the last attempt, for the message
  for (const Anchor& anchor : anchors) {
    auto ids = anchor.encode(context.tokenizer, choice);
    if (!ids) continue;
    const std::string text = text_behind(context, params, *ids);
    if (text == choice) return *std::move(ids);
    if (made.empty()) made = text;
  }
  fail(
      "choices[{}]: {} cannot be generated: after this prompt, this model's tokenizer turns it into {}; write it that "
      "way, or leave it out",
      index, shown(choice), shown(made));
}

void check(const ChoiceContext& context, const SamplingParams& params, std::size_t index,
           std::span<const std::int32_t> ids) {
  const std::string choice = fmt::format("choices[{}]: {}", index, shown_choice(params.choices[index]));
  for (std::int32_t id : ids) {
    if (id < 0 || id >= context.vocab_size) {
      fail("{} has token id {}, but this model's ids are from 0 to {}; leave it out", choice, id,
           context.vocab_size - 1);
    }
    if (std::binary_search(context.end_tokens.begin(), context.end_tokens.end(), id)) {
      fail(
          "{} has token id {}, which ends an answer (an end token of the model or one of stop_token_ids); leave out "
          "one of them",
          choice, id);
    }
  }
  const auto* given = std::get_if<std::string>(&params.choices[index]);
  for (const std::string& stop : params.stop) {
    const std::string text = given != nullptr ? *given : text_behind(context, params, ids);
    if (text.find(stop) != std::string::npos) {
      fail("{} contains the stop string {}, so it would be cut; leave out one of them", choice, shown(stop));
    }
  }
  const auto length = static_cast<std::int64_t>(ids.size());
  if (length > context.max_tokens) {
    fail(
        "{} needs {}, but only {} may be generated; raise max_tokens, or shorten the prompt if max_model_len is the "
        "limit",
        choice, num_tokens(length), context.max_tokens);
  }
  if (length < params.min_tokens) {
    fail("{} has {}, fewer than min_tokens ({}); lower min_tokens or leave it out", choice, num_tokens(length),
         params.min_tokens);
  }
}

}  // namespace

ChoiceGuide make_choice_guide(const SamplingParams& params, const ChoiceContext& context) {
  const std::vector<Anchor> anchors = anchors_of(context);
  std::vector<std::vector<std::int32_t>> tokens;
  tokens.reserve(params.choices.size());
  for (std::size_t i = 0; i < params.choices.size(); ++i) {
    tokens.push_back(tokenise(context, params, i, anchors));
    check(context, params, i, tokens.back());
  }
  if (context.end_tokens.empty()) {
    if (const auto pair = find_continued_choice(tokens)) {
      fail(
          "choices[{}]: {} is the beginning of choices[{}], but this model has no end token that could tell them "
          "apart; name one in stop_token_ids",
          pair->first, shown_choice(params.choices[pair->first]), pair->second);
    }
  }
  ChoiceTrie trie(tokens, {context.end_tokens.begin(), context.end_tokens.end()});
  return {std::move(tokens), std::move(trie)};
}

}  // namespace mortise
