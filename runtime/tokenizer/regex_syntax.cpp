#include "tokenizer/regex_syntax.hpp"

#include <cctype>
#include <cstddef>
#include <vector>

#include "error.hpp"
#include "tokenizer/unicode_sets.hpp"
#include "tokenizer/utf8.hpp"

namespace mortise::tokenizer {
namespace {

// One pass over the pattern. `out_` is PCRE2's spelling so far; `atom_` is where its last atom (what a quantifier would
// repeat) starts, needed for quantifiers that must be put around a group of their own.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string translate() {
    while (!at_end()) {
      switch (peek()) {
        case '\\':
          escape();
          break;
        case '[':
          set();
          break;
        case '(':
          open_group();
          break;
        case ')':
          close_group();
          break;
        case '*':
        case '+':
        case '?':
          simple_quantifier();
          break;
        case '{':
          interval();
          break;
        default:
          begin_atom();
          copy_character();
      }
    }
    return std::move(out_);
  }

 private:
  bool at_end(std::size_t ahead = 0) const { return position_ + ahead >= in_.size(); }
  char peek(std::size_t ahead = 0) const { return at_end(ahead) ? '\0' : in_[position_ + ahead]; }
  bool next_is(std::string_view text) const { return in_.substr(position_).starts_with(text); }
  void begin_atom() { atom_ = out_.size(); }

  void copy_character() {
    const std::size_t length = character_length(peek());
    out_ += in_.substr(position_, length);
    position_ += length;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    fail("{} at offset {} of the regular expression is not supported", what, position_);
  }

  void escape() {
    begin_atom();
    const char letter = peek(1);
    if (letter == 'b' || letter == 'B') return word_boundary(letter == 'b');
    if (CharacterSet set; character_class(set)) {
      out_ += set.bracketed();
      return;
    }
    if (std::string_view("AzZGRX").find(letter) != std::string_view::npos) {
      out_ += in_.substr(position_, 2);
      position_ += 2;
      return;
    }
    literal_escape(out_);
  }

  // \s, \P{L} and the like, in and outside of sets. Leaves the position alone and returns false if this is none.
  bool character_class(CharacterSet& set) {
    const char letter = peek(1);
    if (std::string_view("swdhSWDH").find(letter) != std::string_view::npos) {
      set = shorthand_set(static_cast<char>(std::tolower(letter)));
      set.negated = std::isupper(letter) != 0;
      position_ += 2;
      return true;
    }
    if (letter != 'p' && letter != 'P') return false;
    const std::size_t close = in_.find('}', position_);
    if (peek(2) != '{' || close == std::string_view::npos) refuse("\\p without {name}");
    std::string_view name = in_.substr(position_ + 3, close - position_ - 3);
    const bool caret = name.starts_with('^');
    if (caret) name.remove_prefix(1);
    for (const char c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != ' ')
        refuse("the property's name");
    }
    set = property_set(name);
    set.negated = set.negated != (caret != (letter == 'P'));
    position_ = close + 1;
    return true;
  }

  void word_boundary(bool positive) {
    const std::string word = shorthand_set('w').bracketed();
    const std::string both = positive ? "(?:(?<=W)(?!W)|(?<!W)(?=W))" : "(?:(?<=W)(?=W)|(?<!W)(?!W))";
    for (const char c : both) out_ += c == 'W' ? word : std::string(1, c);
    position_ += 2;
  }

  // An escape that stands for one character.
  void literal_escape(std::string& out) {
    const char letter = peek(1);
    if (letter == '\0' && at_end(1)) refuse("a \\ at the end");
    if (letter == 'x') return hexadecimal_escape(out);
    if (letter == 'u') {
      out += fmt::format("\\x{{{}}}", hexadecimal_digits(position_ + 2, 4));
      position_ += 6;
    } else if (letter == 'v') {
      out += "\\x0B";  // in PCRE2 \v is a class of line ends
      position_ += 2;
    } else if (std::string_view("ntrfae").find(letter) != std::string_view::npos) {
      out += in_.substr(position_, 2);
      position_ += 2;
    } else if (std::isalnum(static_cast<unsigned char>(letter))) {
      refuse(in_.substr(position_, 2));
    } else {
      if (static_cast<unsigned char>(letter) < 0x80) out += '\\';
      const std::size_t length = character_length(letter);
      out += in_.substr(position_ + 1, length);
      position_ += 1 + length;
    }
  }

  void hexadecimal_escape(std::string& out) {
    if (peek(2) == '{') {
      const std::size_t close = in_.find('}', position_);
      const std::size_t digits = close == std::string_view::npos ? 0 : close - position_ - 3;
      out += fmt::format("\\x{{{}}}", hexadecimal_digits(position_ + 3, digits));
      position_ = close + 1;
      return;
    }
    out += fmt::format("\\x{{{}}}", hexadecimal_digits(position_ + 2, 2));
    position_ += 4;
  }

  std::string hexadecimal_digits(std::size_t begin, std::size_t count) const {
    if (count == 0 || begin + count > in_.size()) refuse("an incomplete hexadecimal escape");
    const std::string digits(in_.substr(begin, count));
    for (const char c : digits) {
      if (!std::isxdigit(static_cast<unsigned char>(c))) refuse("an incomplete hexadecimal escape");
    }
    return digits;
  }

  // A set is a union of characters and of negated classes ([\S\r]). PCRE2 could spell the union itself, but not when a
  // negated class has a supplement, so each negated class becomes a branch: [a\S] is (?:[a]|[^s]), and [^a\S] is
  // (?=[s])[^a].
  void set() {
    begin_atom();
    ++position_;
    const bool negated = peek() == '^';
    if (negated) ++position_;
    std::string members;
    std::vector<std::string> excluded;
    range_ = Range::kNone;
    for (bool first = true; at_end() || peek() != ']' || first; first = false) {
      if (at_end()) refuse("a set without ]");
      set_member(members, excluded);
    }
    ++position_;
    out_ += excluded.empty() ? CharacterSet{members, negated}.bracketed() : union_of(members, excluded, negated);
  }

  static std::string union_of(const std::string& members, const std::vector<std::string>& excluded, bool negated) {
    std::string branches = "(?:";
    for (const std::string& body : excluded)
      branches += negated ? fmt::format("(?=[{}])", body) : fmt::format("[^{}]|", body);
    const std::string everything = "\\x{0}-\\x{10FFFF}";
    if (!members.empty()) {
      branches += CharacterSet{members, negated}.bracketed();
    } else if (negated) {
      branches += CharacterSet{everything}.bracketed();
    } else {
      branches.pop_back();
    }
    return branches + ')';
  }

  void set_member(std::string& members, std::vector<std::string>& excluded) {
    if (peek() == '[') refuse("a set or POSIX bracket inside a set");
    if (next_is("&&")) refuse("a set intersection (&&)");
    if (CharacterSet set; peek() == '\\' && character_class(set)) {
      if (set.negated) {
        excluded.push_back(set.body);
      } else {
        members += set.body;
      }
      range_ = Range::kNone;
      return;
    }
    if (peek() == '-') {
      const bool is_operator = range_ == Range::kCanStart && peek(1) != ']' && !class_follows();
      members += is_operator ? "-" : "\\-";
      range_ = is_operator ? Range::kOpen : Range::kNone;
      ++position_;
      return;
    }
    if (peek() != '\\') {
      if (peek() == ']' || peek() == '^') members += '\\';
      const std::size_t length = character_length(peek());
      members += in_.substr(position_, length);
      position_ += length;
    } else if (peek(1) == 'b') {
      members += "\\x{8}";
      position_ += 2;
    } else {
      literal_escape(members);
    }
    range_ = range_ == Range::kOpen ? Range::kNone : Range::kCanStart;
  }

  // Whether a - is followed by \d or the like: then it is no range, and PCRE2 wants it escaped.
  bool class_follows() const {
    return peek(1) == '\\' && std::string_view("swdhpSWDHP").find(peek(2)) != std::string_view::npos;
  }

  void open_group() {
    const std::size_t start = out_.size();
    if (next_is("(*")) refuse("(*");
    if (!next_is("(?")) {
      ++position_;
      out_ += "(?:";  // nothing here reads a captured group
    } else if (next_is("(?#")) {
      const std::size_t close = in_.find(')', position_);
      if (close == std::string_view::npos) refuse("a comment without )");
      position_ = close + 1;
      return;
    } else if (next_is("(?<=") || next_is("(?<!")) {
      copy(4);
    } else if (next_is("(?:") || next_is("(?=") || next_is("(?!") || next_is("(?>")) {
      copy(3);
    } else if (!options()) {
      return;
    }
    groups_.push_back(start);
  }

  void copy(std::size_t count) {
    out_ += in_.substr(position_, count);
    position_ += count;
  }

  // (?i:...) and (?i). The second form holds to the end of the group in both engines, but Oniguruma lets it swallow the
  // alternatives that follow, so it is taken at the start of the pattern only, where that makes no difference. Returns
  // whether a group was opened.
  bool options() {
    const std::size_t start = position_;
    std::string letters = "(?";
    for (position_ += 2; peek() == 'i' || peek() == 'm' || peek() == '-'; ++position_) {
      letters += peek() == 'm' ? 's' : peek();
    }
    const char end = peek();
    if (end != ':' && !(end == ')' && start == 0)) {
      position_ = start;
      refuse(in_.substr(position_, 4));
    }
    ++position_;
    out_ += letters + end;
    return end == ':';
  }

  void close_group() {
    if (groups_.empty()) refuse("a ) without (");
    atom_ = groups_.back();
    groups_.pop_back();
    out_ += ')';
    ++position_;
  }

  void simple_quantifier() {
    copy(1);
    if (peek() == '?' || peek() == '+') copy(1);
  }

  void interval() {
    std::size_t i = 1;
    std::string low, high;
    while (std::isdigit(static_cast<unsigned char>(peek(i)))) low += peek(i++);
    const bool has_comma = peek(i) == ',';
    if (has_comma) ++i;
    while (has_comma && std::isdigit(static_cast<unsigned char>(peek(i)))) high += peek(i++);
    if (peek(i) != '}' || (low.empty() && high.empty())) {
      begin_atom();
      out_ += "\\{";
      ++position_;
      return;
    }
    position_ += i + 1;
    out_ += fmt::format("{{{}{}{}}}", low.empty() ? "0" : low, has_comma ? "," : "", high);
    if (peek() == '+' || (peek() == '?' && !has_comma)) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    if (peek() == '?') copy(1);
  }

  std::string_view in_;
  std::size_t position_ = 0;
  std::string out_;
  std::size_t atom_ = 0;
  std::vector<std::size_t> groups_;
  enum class Range { kNone, kCanStart, kOpen } range_ = Range::kNone;  // what a - in a set would mean here
};

}  // namespace

std::string to_pcre2_syntax(std::string_view pattern) {
  return Translator(pattern).translate();
}

}  // namespace mortise::tokenizer
