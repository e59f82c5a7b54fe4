#include "tokenizer/normalizer/normalizer.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/characters/byte_alphabet.hpp"
#include "tokenizer/characters/character_sets.hpp"
#include "tokenizer/characters/utf8.hpp"
#include "tokenizer/normalizer/unicode_normalization.hpp"
#include "tokenizer/regex/pattern.hpp"

namespace mortise::tokenizer {
namespace {

// Normalizers that rewrite characters independently of their place in the text.
class CharacterNormalizer final : public Normalizer {
 public:
  using Rewrite = std::string (*)(std::string_view);
  explicit CharacterNormalizer(Rewrite rewrite) : rewrite_(rewrite) {}

  void apply(WorkingText& text) const override {
    const std::size_t origin_size = rewrite_(std::string_view(text.text).substr(0, text.origin_end)).size();
    text.text = rewrite_(text.text);
    text.growth.check(text.text.size());
    // The first character may have been composed with the next one.
    text.origin_end = character_boundary(text.text, std::min(origin_size, text.text.size()));
  }

 private:
  Rewrite rewrite_;
};

std::string strip_accents(std::string_view text) {
  std::string stripped;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    if (!is_combining_mark(next_code_point(text, i))) stripped += text.substr(begin, i - begin);
  }
  return stripped;
}

bool is_removed_by_nmt(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

bool is_space_to_nmt(char32_t c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

std::string clean_for_nmt(std::string_view text) {
  std::string clean;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (!is_removed_by_nmt(c)) append_utf8(is_space_to_nmt(c) ? U' ' : c, clean);
  }
  return clean;
}

std::string to_byte_characters(std::string_view text) {
  std::string characters;
  append_byte_characters(text, characters);
  return characters;
}

// Prepend: puts a text in front of a text that is not empty. Immutable.
class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(WorkingText& text) const override {
    if (text.text.empty()) return;
    text.growth.check(prefix_.size() + text.text.size());
    text.text.insert(0, prefix_);
    if (text.origin_end > 0) text.origin_end += prefix_.size();
  }

 private:
  std::string prefix_;
};

// Strip: removes white space at one or both ends. Immutable.
class StripNormalizer final : public Normalizer {
 public:
  explicit StripNormalizer(const ConfigNode& node)
      : left_(node.at("strip_left").as_bool()), right_(node.at("strip_right").as_bool()) {}

  void apply(WorkingText& text) const override {
    const std::size_t begin = left_ ? white_space_end(text.text, 0) : 0;
    const std::size_t end = right_ ? white_space_begin(text.text, text.text.size(), begin) : text.text.size();
    text.text = text.text.substr(begin, end - begin);
    text.origin_end = std::min(std::max(text.origin_end, begin) - begin, text.text.size());
  }

 private:
  bool left_;
  bool right_;
};

// Replace: each match of a pattern becomes a fixed text. Immutable.
class ReplaceNormalizer final : public Normalizer {
 public:
  explicit ReplaceNormalizer(const ConfigNode& node)
      : pattern_(node.at("pattern")), content_(node.at("content").as_string()) {}

  void apply(WorkingText& text) const override {
    std::vector<Match> matches;
    pattern_.find_all(text.text, *text.time, matches);
    text.growth.check(text.text.size() + matches.size() * content_.size());
    const std::string_view old = text.text;
    std::string replaced;
    replaced.reserve(old.size());
    std::size_t origin_end = 0;
    std::size_t end = 0;
    for (const Match& match : matches) {
      if (end < text.origin_end) origin_end = replaced.size() + std::min(match.begin, text.origin_end) - end;
      replaced.append(old.substr(end, match.begin - end)).append(content_);
      if (!content_.empty() && comes_from_origin(text, match)) origin_end = replaced.size();
      end = match.end;
    }
    if (end < text.origin_end) origin_end = replaced.size() + text.origin_end - end;
    replaced.append(old.substr(end));
    text.text = std::move(replaced);
    text.origin_end = origin_end;
  }

 private:
  // `tokenizers` attributes a replacement to the last character of the match, or to the character in front of an empty
  // match.
  static bool comes_from_origin(const WorkingText& text, const Match& match) {
    return match.end == 0 ? text.starts_input : previous_character(text.text, match.end) < text.origin_end;
  }

  Pattern pattern_;
  std::string content_;
};

// Sequence: applies normalizers one after the other. Immutable.
class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(const ConfigNode& list) {
    for (const ConfigNode& node : list.elements()) parts_.push_back(make_normalizer(node));
  }
  void apply(WorkingText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

template <NormalForm Form>
std::string normal_form(std::string_view text) {
  return normalize(text, Form);
}

constexpr std::pair<std::string_view, CharacterNormalizer::Rewrite> kCharacterNormalizers[] = {
    {"NFC", normal_form<NormalForm::kNfc>},
    {"NFD", normal_form<NormalForm::kNfd>},
    {"NFKC", normal_form<NormalForm::kNfkc>},
    {"NFKD", normal_form<NormalForm::kNfkd>},
    {"Lowercase", to_lower_case},
    {"StripAccents", strip_accents},
    {"Nmt", clean_for_nmt},
    {"ByteLevel", to_byte_characters},
};

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const ConfigNode& node) {
  const std::string type = node.at("type").as_string();
  for (const auto& [name, rewrite] : kCharacterNormalizers) {
    if (type == name) return std::make_unique<CharacterNormalizer>(rewrite);
  }
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(node.at("prepend").as_string());
  if (type == "Strip") return std::make_unique<StripNormalizer>(node);
  if (type == "Replace") return std::make_unique<ReplaceNormalizer>(node);
  if (type == "Sequence") return std::make_unique<SequenceNormalizer>(node.at("normalizers"));
  node.fail_unsupported("normalizer", type,
                        "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Nmt, ByteLevel, Prepend, Strip, Replace and "
                        "Sequence");
}

}  // namespace mortise::tokenizer
