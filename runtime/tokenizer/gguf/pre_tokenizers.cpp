#include "tokenizer/gguf/pre_tokenizers.hpp"

#include <algorithm>
#include <iterator>

namespace mortise::tokenizer {
namespace {

using nlohmann::json;

// The patterns are those of the published tokenizer.json files, not llama.cpp's rewritings of them.
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// llama.cpp's own, for models that its converter does not know by another name.
constexpr const char* kDefaultPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";

json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

json split(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json sequence(json parts) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

json by_pattern(const char* pattern) {
  return sequence({split(pattern), byte_level(false)});
}

NamedPreTokenizer gpt2() {
  return {.normalizer = {}, .pre_tokenizer = byte_level(true)};
}

NamedPreTokenizer with_digits() {
  return {.normalizer = {},
          .pre_tokenizer = sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)})};
}

NamedPreTokenizer llama3() {
  return {.normalizer = {}, .pre_tokenizer = by_pattern(kLlama3), .ignore_merges = true, .add_bos = true};
}

NamedPreTokenizer qwen2() {
  return {.normalizer = {{"type", "NFC"}}, .pre_tokenizer = by_pattern(kQwen2)};
}

NamedPreTokenizer tekken() {
  return {.normalizer = {}, .pre_tokenizer = by_pattern(kTekken), .ignore_merges = true, .add_bos = true};
}

// Each pattern divides the pieces of the one before.
NamedPreTokenizer usual() {
  return {.normalizer = {},
          .pre_tokenizer = sequence({split(kDefaultPunctuation), split(kGpt2), split(R"(\p{N}+)"),
                                     split("[0-9][0-9][0-9]"), byte_level(false)})};
}

struct Entry {
  std::string_view name;
  NamedPreTokenizer (*make)();
};
constexpr Entry kEntries[] = {
    {"default", usual},         {"gpt-2", gpt2},         {"phi-2", gpt2},       {"smollm", with_digits},
    {"starcoder", with_digits}, {"refact", with_digits}, {"llama-bpe", llama3}, {"llama3", llama3},
    {"llama-v3", llama3},       {"qwen2", qwen2},        {"tekken", tekken}};

}  // namespace

std::optional<NamedPreTokenizer> find_pre_tokenizer(std::string_view name) {
  const auto* found = std::ranges::find(kEntries, name, &Entry::name);
  return found == std::end(kEntries) ? std::nullopt : std::optional(found->make());
}

std::string known_pre_tokenizers() {
  std::string names;
  for (const Entry& entry : kEntries) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

}  // namespace mortise::tokenizer
