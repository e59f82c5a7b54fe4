#include "tokenizer/unicode_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace mortise::tokenizer {
namespace {

struct AssignedRange {
  char32_t first;
  char32_t last;
  std::string_view category;
  std::string_view script;
};

constexpr AssignedRange kAssignedSinceUnicode14[] = {
#include "tokenizer/unicode_supplement.inc"
};

// Long names of categories that PCRE2 does not take.
constexpr std::pair<std::string_view, std::string_view> kCategoryNames[] = {
    {"letter", "L"},           {"mark", "M"},  {"number", "N"}, {"punctuation", "P"},    {"symbol", "S"},
    {"separator", "Z"},        {"other", "C"}, {"digit", "Nd"}, {"decimalnumber", "Nd"}, {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
};

constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
                                            "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
                                            "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co"};

template <typename Predicate>
std::string assigned_since(Predicate wanted) {
  std::string body;
  for (const AssignedRange& range : kAssignedSinceUnicode14) {
    if (!wanted(range)) continue;
    body += fmt::format("\\x{{{:X}}}", static_cast<unsigned>(range.first));
    if (range.last != range.first) body += fmt::format("-\\x{{{:X}}}", static_cast<unsigned>(range.last));
  }
  return body;
}

std::string category_body(std::string_view category) {
  return fmt::format("\\p{{{}}}", category) +
         assigned_since([&](const AssignedRange& range) { return range.category.starts_with(category); });
}

// Names of properties are compared without case, spaces, hyphens and underscores.
std::string loose_name(std::string_view name) {
  std::string loose;
  for (const char c : name) {
    if (c != '_' && c != '-' && c != ' ') loose += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return loose;
}

}  // namespace

std::string CharacterSet::bracketed() const {
  return fmt::format("[{}{}]", negated ? "^" : "", body);
}

CharacterSet property_set(std::string_view name) {
  const std::string loose = loose_name(name);
  if (loose == "alpha" || loose == "alphabetic") {
    return {"\\p{Alphabetic}" + assigned_since([](const AssignedRange& r) { return r.category[0] == 'L'; })};
  }
  if (loose == "space" || loose == "whitespace") return shorthand_set('s');
  if (loose == "word") return shorthand_set('w');
  for (const auto& [long_name, category] : kCategoryNames) {
    if (loose == long_name) return property_set(category);
  }
  const auto is_this = [&](std::string_view category) { return loose_name(category) == loose; };
  if (const auto* it = std::ranges::find_if(kCategories, is_this); it != std::end(kCategories)) {
    // "Other" has the unassigned code points, so it shrinks when characters are assigned: it is what no other category
    // has.
    if (*it != "C") return {category_body(*it)};
    CharacterSet other{"", /*negated=*/true};
    for (const std::string_view category : {"L", "M", "N", "P", "S", "Z"}) other.body += category_body(category);
    return other;
  }
  return {fmt::format("\\p{{sc:{}}}", name) +
          assigned_since([&](const AssignedRange& range) { return loose_name(range.script) == loose; })};
}

CharacterSet shorthand_set(char letter) {
  switch (letter) {
    case 's':
      return {"\\p{White_Space}"};
    case 'd':
      return property_set("Nd");
    case 'h':
      return {"0-9A-Fa-f"};
    default:  // 'w': Oniguruma counts superscripts and fractions of Latin-1 as word characters
      return {"\\p{Alphabetic}" + category_body("L") + category_body("M") + category_body("Nd") + category_body("Pc") +
              "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"};
  }
}

CharacterSet rust_word_set() {
  return {"\\p{Alphabetic}" + category_body("L") + category_body("M") + category_body("Nd") + category_body("Pc") +
          "\\x{200C}\\x{200D}"};
}

}  // namespace mortise::tokenizer
