#include "tokenizer/pre_tokenizer/piece_rewriters.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "tokenizer/characters/byte_alphabet.hpp"
#include "tokenizer/pre_tokenizer/split.hpp"
#include "tokenizer/regex/pattern.hpp"

namespace mortise::tokenizer {
namespace {

// GPT-2's own pattern, at which ByteLevel splits.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Rewrites all pieces: puts `prefix_of(piece, starts_input)` in front of each; `append(part, out)` writes a part of a
// piece.
template <typename Prefix, typename Append>
void rewrite_pieces(PreTokenized& text, Prefix prefix_of, Append append) {
  std::string out;
  out.reserve(text.text.size() + text.text.size() / 2);
  std::size_t origin_end = 0;
  for (auto& piece : text.pieces) {
    const std::size_t begin = out.size();
    std::string_view rest = text.view(piece);
    const bool starts_input = piece.begin < text.origin_end;
    out += prefix_of(rest, starts_input);
    if (starts_input) {
      const std::size_t origin_size = std::min(text.origin_end, piece.end) - piece.begin;
      append(rest.substr(0, origin_size), out);
      rest.remove_prefix(origin_size);
      origin_end = out.size();
    }
    append(rest, out);
    piece = {begin, out.size()};
    text.growth.check(out.size());
  }
  text.text = std::move(out);
  text.origin_end = origin_end;
}

MetaspaceOptions::Prepend read_prepend(const ConfigNode& node) {
  const auto scheme = node.find("prepend_scheme");
  const bool adds_prefix = node.bool_or("add_prefix_space", true);
  if (!scheme) return adds_prefix ? MetaspaceOptions::Prepend::kAlways : MetaspaceOptions::Prepend::kNever;
  const std::string name = scheme->as_string();
  if (name == "never") return MetaspaceOptions::Prepend::kNever;
  if (name != "first" && name != "always") scheme->fail_expected("first, always or never");
  if (!adds_prefix) scheme->fail_expected("\"never\" beside add_prefix_space false");
  return name == "first" ? MetaspaceOptions::Prepend::kFirst : MetaspaceOptions::Prepend::kAlways;
}

}  // namespace

ByteLevelPreTokenizer::ByteLevelPreTokenizer(const ConfigNode& node)
    : add_prefix_space_(node.at("add_prefix_space").as_bool()) {
  node.at("trim_offsets").as_bool();  // there are no offsets to trim
  if (node.bool_or("use_regex", true)) {
    split_ = std::make_unique<SplitPreTokenizer>(Pattern(Regex(kGpt2Pattern, node.where())), SplitBehavior::kIsolated,
                                                 /*invert=*/false);
  }
}

void ByteLevelPreTokenizer::apply(PreTokenized& text) const {
  if (add_prefix_space_) {
    rewrite_pieces(
        text, [](std::string_view piece, bool) { return piece.starts_with(' ') ? "" : " "; },
        [](std::string_view part, std::string& out) { out += part; });
  }
  if (split_) split_->apply(text);
  rewrite_pieces(
      text, [](std::string_view, bool) { return ""; }, append_byte_characters);
}

MetaspaceOptions::MetaspaceOptions(const ConfigNode& node)
    : replacement(node.at("replacement").as_character()),
      prepend(read_prepend(node)),
      split(node.bool_or("split", true)) {
  if (const auto text = node.find("str_rep")) text->as_string();  // a copy of `replacement`
}

MetaspacePreTokenizer::MetaspacePreTokenizer(const ConfigNode& node) : options_(node) {
  if (options_.split) {
    split_ = std::make_unique<SplitPreTokenizer>(Pattern::of_text(options_.replacement), SplitBehavior::kMergedWithNext,
                                                 /*invert=*/false);
  }
}

void MetaspacePreTokenizer::apply(PreTokenized& text) const {
  const auto prefix_of = [this](std::string_view piece, bool starts_input) {
    const bool has_one = piece.starts_with(' ') || piece.starts_with(options_.replacement);
    const bool wanted = options_.prepend == MetaspaceOptions::Prepend::kAlways ||
                        (options_.prepend == MetaspaceOptions::Prepend::kFirst && starts_input);
    return std::string_view(wanted && !has_one ? std::string_view(options_.replacement) : std::string_view());
  };
  const auto append = [this](std::string_view part, std::string& out) {
    for (std::size_t begin = 0; begin <= part.size();) {
      const std::size_t space = std::min(part.find(' ', begin), part.size());
      out += part.substr(begin, space - begin);
      if (space < part.size()) out += options_.replacement;
      begin = space + 1;
    }
  };
  rewrite_pieces(text, prefix_of, append);
  if (split_) split_->apply(text);
}

}  // namespace mortise::tokenizer
