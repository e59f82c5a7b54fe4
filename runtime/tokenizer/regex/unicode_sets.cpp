#include "tokenizer/regex/unicode_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <utility>

namespace mortise::tokenizer {
namespace {

struct AddedRange {
  char32_t first;
  char32_t last;
  std::string_view category;
  std::string_view script;
  std::string_view properties;  // a(lphabetic), l(owercase), u(ppercase)
};

constexpr AddedRange kAddedSinceUnicode14[] = {
#include "tokenizer/regex/unicode_supplement.inc"
};

// Long names of categories and properties, and the names used here.
constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {
    {"letter", "L"},
    {"mark", "M"},
    {"number", "N"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"other", "C"},
    {"unassigned", "Cn"},
    {"casedletter", "LC"},
    {"surrogate", "Cs"},
    {"privateuse", "Co"},
    {"format", "Cf"},
    {"control", "Cc"},
    {"decimalnumber", "Nd"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"nonspacingmark", "Mn"},
    {"alphabetic", "alpha"},
    {"lowercase", "lower"},
    {"uppercase", "upper"},
    {"whitespace", "space"},
};

constexpr std::string_view kCategories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs", "LC"};

template <typename Predicate>
std::string added_since(Predicate wanted) {
  std::string body;
  for (const AddedRange& range : kAddedSinceUnicode14) {
    if (!wanted(range)) continue;
    body += fmt::format("\\x{{{:X}}}", static_cast<unsigned>(range.first));
    if (range.last != range.first) body += fmt::format("-\\x{{{:X}}}", static_cast<unsigned>(range.last));
  }
  return body;
}

std::string property_body(std::string_view name, char letter) {
  const auto has_letter = [=](const AddedRange& range) {
    return range.properties.find(letter) != std::string_view::npos;
  };
  return fmt::format("\\p{{{}}}", name) + added_since(has_letter);
}

std::string alphabetic_body() {
  return property_body("Alphabetic", 'a');
}

std::string category_body(std::string_view category) {
  return fmt::format("\\p{{{}}}", category) +
         added_since([&](const AddedRange& range) { return range.category.starts_with(category); });
}

// Property names are compared without case, spaces, hyphens and underscores.
std::string loose_name(std::string_view name) {
  std::string loose;
  for (const char c : name) {
    if (c != '_' && c != '-' && c != ' ') loose += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return loose;
}

std::string category_bodies(std::initializer_list<std::string_view> categories) {
  std::string body;
  for (const std::string_view category : categories) body += category_body(category);
  return body;
}

std::string word_body() {
  return alphabetic_body() + category_bodies({"M", "Nd", "Pc"});
}

std::string assigned_body() {
  return category_bodies({"L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co", "Cs"});
}

// Names that mean the same as \p{name} and as [[:name:]]; empty for any other name.
std::string named_body(std::string_view name) {
  if (name == "alpha") return alphabetic_body();
  if (name == "digit") return category_body("Nd");
  if (name == "alnum") return alphabetic_body() + category_body("Nd");
  if (name == "lower") return property_body("Lowercase", 'l');
  if (name == "upper") return property_body("Uppercase", 'u');
  if (name == "space") return "\\p{White_Space}";
  if (name == "blank") return category_body("Zs") + "\\t";
  if (name == "cntrl") return category_body("Cc");
  if (name == "graph") return category_bodies({"L", "M", "N", "P", "S", "Cf", "Co"});
  if (name == "print") return category_bodies({"L", "M", "N", "P", "S", "Cf", "Co", "Zs"});
  if (name == "xdigit") return "0-9A-Fa-f";
  if (name == "any") return "\\x{0}-\\x{10FFFF}";
  if (name == "assigned") return assigned_body();
  if (name == "ascii") return "\\x{0}-\\x{7F}";
  return {};
}

}  // namespace

std::string CharacterSet::bracketed() const {
  return fmt::format("[{}{}]", negated ? "^" : "", body);
}

CharacterSet property_set(std::string_view name) {
  const std::string loose = loose_name(name);
  if (std::string body = named_body(loose); !body.empty()) return {std::move(body)};
  for (const auto& [long_name, short_name] : kLongNames) {
    if (loose == long_name) return property_set(short_name);
  }
  if (loose == "word") return shorthand_set('w');
  const auto is_this = [&](std::string_view category) { return loose_name(category) == loose; };
  if (const auto* it = std::ranges::find_if(kCategories, is_this); it != std::end(kCategories)) {
    // As a complement, because newer Unicode versions have fewer unassigned code points.
    if (*it == "C") return {category_bodies({"L", "M", "N", "P", "S", "Z"}), /*negated=*/true};
    if (*it == "Cn") return {assigned_body(), /*negated=*/true};
    if (*it == "LC") return {category_bodies({"Lu", "Ll", "Lt"})};
    return {category_body(*it)};
  }
  return {fmt::format("\\p{{sc:{}}}", name) +
          added_since([&](const AddedRange& range) { return loose_name(range.script) == loose; })};
}

bool posix_set(std::string_view name, CharacterSet& set) {
  set = {named_body(name)};
  if (name == "word") set = word_set_in_brackets();
  if (name == "punct") set.body = category_bodies({"P", "S"});  // without symbols for \p{Punct}
  return !set.body.empty();
}

CharacterSet word_set_in_brackets() {
  return {word_body()};
}

CharacterSet shorthand_set(char letter) {
  switch (letter) {
    case 's':
      return {"\\p{White_Space}"};
    case 'd':
      return property_set("Nd");
    case 'h':
      return {"0-9A-Fa-f"};
    default:  // 'w': Oniguruma includes superscripts and fractions of Latin-1
      return {word_body() + "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"};
  }
}

CharacterSet rust_word_set() {
  return {word_body() + "\\x{200C}\\x{200D}"};
}

}  // namespace mortise::tokenizer
