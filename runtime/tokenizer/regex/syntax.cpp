#include "tokenizer/regex/syntax.hpp"

#include <cctype>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "tokenizer/regex/reader.hpp"
#include "tokenizer/regex/set.hpp"
#include "tokenizer/regex/unicode_sets.hpp"

namespace mortise::tokenizer {
namespace {

// Each property becomes a few kilobytes of ranges; PCRE2 accepts some tens of kilobytes of compiled pattern.
constexpr std::size_t kMaxTranslatedBytes = std::size_t{1} << 20;

// Translates the pattern in one pass. `out_` is the translation so far. `atom_` is the start of its last atom, to which
// a quantifier would apply; some quantifiers need a group around it.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string translate() {
    while (!in_.at_end()) {
      if (out_.size() > kMaxTranslatedBytes) in_.refuse("so long a pattern");
      take_one();
    }
    return std::move(out_);
  }

 private:
  void begin_atom() { atom_ = out_.size(); }

  void take_one() {
    switch (in_.peek()) {
      case '\\':
        return escape();
      case '[':
        begin_atom();
        out_ += take_set(in_);
        return;
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '*':
      case '+':
      case '?':
        return simple_quantifier();
      case '{':
        return interval();
      default:
        begin_atom();
        out_ += in_.take_character();
    }
  }

  void escape() {
    begin_atom();
    const char letter = in_.peek(1);
    if (letter == 'b' || letter == 'B') return word_boundary(letter == 'b');
    if (CharacterSet set; in_.take_class(set)) {
      out_ += set.bracketed();
    } else if (std::string_view("AzZGR").find(letter) != std::string_view::npos) {
      out_ += in_.take(2);
    } else {
      in_.take_literal_escape(out_);
    }
  }

  void word_boundary(bool positive) {
    const std::string word = shorthand_set('w').bracketed();
    const std::string both = positive ? "(?:(?<=W)(?!W)|(?<!W)(?=W))" : "(?:(?<=W)(?=W)|(?<!W)(?!W))";
    for (const char c : both) out_ += c == 'W' ? word : std::string(1, c);
    in_.skip(2);
  }

  void open_group() {
    const std::size_t start = out_.size();
    if (in_.next_is("(*")) in_.refuse("(*");
    if (!in_.next_is("(?")) {
      in_.skip(1);
      out_ += "(?:";  // captured groups are not used
    } else if (in_.next_is("(?#")) {
      const std::size_t close = in_.find(")");
      if (close == std::string_view::npos) in_.refuse("a comment without )");
      in_.move_to(close + 1);
      return;
    } else if (in_.next_is("(?<=") || in_.next_is("(?<!")) {
      out_ += in_.take(4);
    } else if (in_.next_is("(?:") || in_.next_is("(?=") || in_.next_is("(?!") || in_.next_is("(?>")) {
      out_ += in_.take(3);
    } else if (!options()) {
      return;
    }
    groups_.push_back(start);
  }

  // (?i:...) and (?i). The second form extends to the end of the group in both engines, but in Oniguruma also over the
  // following alternatives. So it is accepted only at the start of the pattern, where that makes no difference. Returns
  // whether a group was opened.
  bool options() {
    const std::size_t start = in_.position();
    std::string letters = "(?";
    for (in_.skip(2); in_.peek() == 'i' || in_.peek() == 'm' || in_.peek() == '-'; in_.skip(1)) {
      letters += in_.peek() == 'm' ? 's' : in_.peek();
    }
    const char end = in_.peek();
    if (end != ':' && !(end == ')' && start == 0)) {
      in_.move_to(start);
      in_.refuse("this kind of group");
    }
    in_.skip(1);
    out_ += letters + end;
    return end == ':';
  }

  void close_group() {
    if (groups_.empty()) in_.refuse("a ) without (");
    atom_ = groups_.back();
    groups_.pop_back();
    out_ += ')';
    in_.skip(1);
  }

  void simple_quantifier() {
    out_ += in_.take(1);
    if (in_.peek() == '?' || in_.peek() == '+') out_ += in_.take(1);
  }

  void interval() {
    std::size_t i = 1;
    std::string low, high;
    while (std::isdigit(static_cast<unsigned char>(in_.peek(i)))) low += in_.peek(i++);
    const bool has_comma = in_.peek(i) == ',';
    if (has_comma) ++i;
    while (has_comma && std::isdigit(static_cast<unsigned char>(in_.peek(i)))) high += in_.peek(i++);
    if (in_.peek(i) != '}' || (low.empty() && high.empty())) {
      begin_atom();
      out_ += "\\{";
      in_.skip(1);
      return;
    }
    in_.skip(i + 1);
    out_ += fmt::format("{{{}{}{}}}", low.empty() ? "0" : low, has_comma ? "," : "", high);
    if (in_.peek() == '+' || (in_.peek() == '?' && !has_comma)) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    if (in_.peek() == '?') out_ += in_.take(1);
  }

  RegexReader in_;
  std::string out_;
  std::size_t atom_ = 0;
  std::vector<std::size_t> groups_;  // start of each open group in `out_`
};

}  // namespace

std::string to_pcre2_syntax(std::string_view pattern) {
  return Translator(pattern).translate();
}

}  // namespace mortise::tokenizer
