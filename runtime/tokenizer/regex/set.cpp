#include "tokenizer/regex/set.hpp"

#include <cctype>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace mortise::tokenizer {
namespace {

constexpr int kMaxDepth = 16;  // nesting of sets, which are read recursively
constexpr const char* kEverything = "[\\x{0}-\\x{10FFFF}]";

// A union of plain members, of the complement of each of `excluded`, and of expressions that match one character each.
struct Union {
  std::string members;
  std::vector<std::string> excluded;
  std::vector<std::string> others;

  bool is_plain() const { return excluded.empty() && others.empty(); }

  void add(const CharacterSet& set) {
    if (set.negated) {
      excluded.push_back(set.body);
    } else {
      members += set.body;
    }
  }

  std::string expression() const {
    if (is_plain()) return CharacterSet{members}.bracketed();
    std::string alternatives;
    if (!members.empty()) alternatives += '|' + CharacterSet{members}.bracketed();
    for (const std::string& body : excluded) alternatives += '|' + CharacterSet{body, /*negated=*/true}.bracketed();
    for (const std::string& other : others) alternatives += '|' + other;
    return "(?:" + alternatives.substr(1) + ')';
  }

  // All characters that are in none of the parts.
  std::string complement() const {
    if (is_plain()) return CharacterSet{members, /*negated=*/true}.bracketed();
    std::string expression = "(?:";
    for (const std::string& other : others) expression += fmt::format("(?!{})", other);
    for (const std::string& body : excluded) expression += fmt::format("(?=[{}])", body);
    return expression + (members.empty() ? kEverything : CharacterSet{members, /*negated=*/true}.bracketed()) + ')';
  }
};

// Reads one set, [...], of a pattern. Used by one thread.
class SetReader {
 public:
  explicit SetReader(RegexReader& reader) : in_(reader) {}

  // Reads a set and adds it to `whole`.
  void take_into(Union& whole, int depth) {
    if (depth == kMaxDepth) in_.refuse("a set inside so many others");
    in_.skip(1);
    const bool negated = in_.peek() == '^';
    if (negated) in_.skip(1);
    std::vector<Union> parts(1);  // to be intersected
    range_ = Range::kNone;
    for (bool first = true; in_.at_end() || in_.peek() != ']' || first; first = false) {
      if (in_.at_end()) in_.refuse("a set without ]");
      if (in_.next_is("&&")) {
        in_.skip(2);
        parts.emplace_back();
        range_ = Range::kNone;
      } else {
        take_member(parts.back(), depth);
      }
    }
    in_.skip(1);
    range_ = Range::kNone;
    if (parts.size() == 1 && parts[0].is_plain()) {
      whole.add({parts[0].members, negated});
    } else {
      whole.others.push_back(parts.size() > 1 ? intersection(parts, negated)
                             : negated        ? parts[0].complement()
                                              : parts[0].expression());
    }
  }

 private:
  enum class Range { kNone, kCanStart, kOpen };

  std::string intersection(const std::vector<Union>& parts, bool negated) const {
    std::string all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].is_plain() && parts[i].members.empty()) in_.refuse("a set with nothing at one side of &&, before");
      const std::string part = parts[i].expression();
      all += i + 1 < parts.size() ? fmt::format("(?={})", part) : part;
    }
    return negated ? fmt::format("(?:(?!{}){})", all, kEverything) : fmt::format("(?:{})", all);
  }

  void take_member(Union& part, int depth) {
    if (in_.peek() == '[') {
      if (!take_posix_bracket(part)) take_into(part, depth + 1);
      return;
    }
    if (CharacterSet set; in_.take_class_in_set(set)) {
      part.add(set);
      range_ = Range::kNone;
      return;
    }
    if (in_.peek() == '-') {
      const bool is_operator = range_ == Range::kCanStart && in_.peek(1) != ']' && !class_follows();
      part.members += is_operator ? "-" : "\\-";
      range_ = is_operator ? Range::kOpen : Range::kNone;
      in_.skip(1);
      return;
    }
    take_character(part.members);
    range_ = range_ == Range::kOpen ? Range::kNone : Range::kCanStart;
  }

  void take_character(std::string& members) {
    if (in_.peek() != '\\') {
      if (in_.peek() == ']' || in_.peek() == '^') members += '\\';
      members += in_.take_character();
    } else if (in_.peek(1) == 'b') {
      members += "\\x{8}";
      in_.skip(2);
    } else {
      in_.take_literal_escape(members);
    }
  }

  // [:alpha:], [:^digit:]. Anything else that starts like this is a set that begins with a colon.
  bool take_posix_bracket(Union& part) {
    if (!in_.next_is("[:")) return false;
    const std::size_t close = in_.find(":]");
    if (close == std::string_view::npos) return false;
    const std::size_t start = in_.position();
    in_.skip(2);
    const bool negated = in_.peek() == '^';
    if (negated) in_.skip(1);
    const std::string name(in_.take(close - in_.position()));
    CharacterSet set;
    if (!posix_set(name, set)) {
      in_.move_to(start);
      return false;
    }
    in_.skip(2);
    set.negated = set.negated != negated;
    part.add(set);
    range_ = Range::kNone;
    return true;
  }

  // Whether \d or the like follows a `-`. The `-` then makes no range, and PCRE2 requires it to be escaped.
  bool class_follows() const {
    return in_.peek(1) == '\\' && std::string_view("swdhpSWDHP").find(in_.peek(2)) != std::string_view::npos;
  }

  RegexReader& in_;
  Range range_ = Range::kNone;  // the meaning of a - at this place
};

}  // namespace

std::string take_set(RegexReader& reader) {
  Union whole;
  SetReader(reader).take_into(whole, 0);
  if (!whole.others.empty()) return whole.others[0];
  return whole.excluded.empty() ? CharacterSet{whole.members}.bracketed()
                                : CharacterSet{whole.excluded[0], /*negated=*/true}.bracketed();
}

}  // namespace mortise::tokenizer
