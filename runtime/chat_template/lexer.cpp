#include "chat_template/lexer.hpp"

#include <algorithm>
#include <array>

#include "chat_template/escapes.hpp"
#include "chat_template/unicode.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise::jinja {
namespace {

using TokenKind = Token::Kind;

// "\r\n" and "\r" also end a line. A line end at the very end is dropped.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') continue;
      text += '\n';
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_name_start(unsigned char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}
bool is_digit_byte(unsigned char c) {
  return c >= '0' && c <= '9';
}

// Divides a template into tokens. Invariant: the text before at_ is in tokens_. Used by one thread.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(with_plain_lines(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const std::size_t tag = find_tag();
      if (tag == text_.npos) {
        add_data(text_.substr(at_));
        advance(text_.size());
      } else {
        take_data(tag);
        take_tag();
      }
    }
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const { fail("line {}: {}", line_, what); }

  bool starts_with(std::string_view what) const { return std::string_view(text_).substr(at_).starts_with(what); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void add_data(std::string text) {
    if (!text.empty()) add(TokenKind::kData, std::move(text));
  }

  std::size_t find_tag() const {
    for (std::size_t at = text_.find('{', at_); at != text_.npos; at = text_.find('{', at + 1)) {
      const char next = at + 1 < text_.size() ? text_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return text_.npos;
  }

  // Takes the text before the tag at `tag`, without the white space that the tag removes.
  void take_data(std::size_t tag) {
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    add_data(stripped(text_.substr(at_, tag - at_), sign, /*is_output=*/text_[tag + 1] == '{'));
    advance(tag);
  }

  std::string stripped(std::string data, char sign, bool is_output) const {
    if (sign == '-') return data.substr(0, end_without_space(data));
    if (sign == '+' || is_output) return data;
    // A tag on a line of its own removes the space in front of it.
    const std::size_t newline = data.rfind('\n');
    const std::size_t line_begin = newline == data.npos ? 0 : newline + 1;
    const bool starts_line = line_begin > 0 || at_ == 0 || text_[at_ - 1] == '\n';
    if (starts_line && end_without_space(data) <= line_begin) data.resize(line_begin);
    return data;
  }

  static std::size_t end_without_space(const std::string& data) {
    std::size_t end = 0;
    for (std::size_t at = 0; at < data.size();) {
      if (!is_space(next_character(data, at))) end = at;
    }
    return end;
  }
  void skip_space() {
    std::size_t at = at_;
    while (at < text_.size()) {
      std::size_t next = at;
      if (!is_space(next_character(text_, next))) break;
      at = next;
    }
    advance(at);
  }

  void take_tag() {
    const char kind = text_[at_ + 1];
    const int line = line_;
    advance(at_ + 2);
    if (peek() == '-' || peek() == '+') advance(at_ + 1);
    if (kind == '#') return take_comment(line);
    if (kind == '%' && take_raw()) return;
    tokens_.push_back({kind == '{' ? TokenKind::kOutputBegin : TokenKind::kTagBegin, "", line});
    while (!take_end(kind)) take_token(line);
  }

  // Ends a tag and removes white space after it: all of it after "-", otherwise one newline unless there is "+".
  void close(std::size_t end, char sign, bool trims_newline) {
    advance(end);
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && trims_newline && peek() == '\n') {
      advance(at_ + 1);
    }
  }

  void take_comment(int line) {
    const std::size_t end = text_.find("#}", at_);
    if (end == text_.npos) {
      line_ = line;
      refuse("the comment that begins here does not end; close it with #}");
    }
    // In "{#-#}" the sign belongs to the start.
    const char sign = end > at_ ? text_[end - 1] : '\0';
    close(end + 2, sign == '-' || sign == '+' ? sign : '\0', /*trims_newline=*/true);
  }

  // {% raw %} ... {% endraw %}, whose content is text.
  bool take_raw() {
    const std::size_t body = after_word(at_, "raw");
    if (body == text_.npos) return false;
    const std::size_t begin = tag_end(body);
    if (begin == text_.npos) return false;
    close(begin, text_[begin - 3], /*trims_newline=*/false);
    for (std::size_t tag = text_.find("{%", at_); tag != text_.npos; tag = text_.find("{%", tag + 1)) {
      const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
      const std::size_t after = after_word(tag + 2 + (sign == '-' || sign == '+'), "endraw");
      const std::size_t end = after == text_.npos ? after : tag_end(after);
      if (end == text_.npos) continue;
      take_data(tag);
      close(end, text_[end - 3], /*trims_newline=*/true);
      return true;
    }
    refuse("the tag 'raw' has no 'endraw'");
  }
  std::size_t space_end(std::size_t at) const {
    while (at < text_.size() && is_space(static_cast<unsigned char>(text_[at]))) ++at;
    return at;
  }
  std::size_t after_word(std::size_t at, std::string_view word) const {
    at = space_end(at);
    return std::string_view(text_).substr(std::min(at, text_.size())).starts_with(word) ? at + word.size() : text_.npos;
  }
  std::size_t tag_end(std::size_t at) const {
    at = space_end(at);
    if (at < text_.size() && (text_[at] == '-' || text_[at] == '+')) ++at;
    return text_.compare(at, 2, "%}") == 0 ? at + 2 : text_.npos;
  }

  // Whether the tag ends here. Inside brackets "}}" closes two brackets instead.
  bool take_end(char kind) {
    skip_space();
    if (!brackets_.empty()) return false;
    const std::string_view end = kind == '{' ? "}}" : "%}";
    const char sign = peek();
    const bool has_sign = sign == '-' || (sign == '+' && kind == '%');
    if (text_.compare(std::min(at_ + has_sign, text_.size()), 2, end) != 0) return false;
    add(kind == '{' ? TokenKind::kOutputEnd : TokenKind::kTagEnd, "");
    close(at_ + has_sign + 2, has_sign ? sign : '\0', kind == '%');
    return true;
  }

  void take_token(int tag_line) {
    if (at_ >= text_.size()) {
      line_ = tag_line;
      refuse("the tag that begins here does not end; close it with %} or }}");
    }
    const auto c = static_cast<unsigned char>(peek());
    if (is_digit_byte(c)) return take_number();
    if (is_name_start(c)) return take_name();
    if (c == '"' || c == '\'') return take_string();
    take_sign();
  }

  void take_name() {
    std::size_t end = at_;
    while (end < text_.size() && (is_name_start(static_cast<unsigned char>(text_[end])) ||
                                  is_digit_byte(static_cast<unsigned char>(text_[end])))) {
      ++end;
    }
    add(TokenKind::kName, text_.substr(at_, end - at_));
    advance(end);
  }

  // Digits may be grouped: 1_000.
  std::size_t digits_end(std::size_t at) const {
    while (at < text_.size() &&
           (is_digit_byte(static_cast<unsigned char>(text_[at])) ||
            (text_[at] == '_' && at + 1 < text_.size() && is_digit_byte(static_cast<unsigned char>(text_[at + 1]))))) {
      ++at;
    }
    return at;
  }
  void take_number() {
    std::size_t end = digits_end(at_);
    bool is_float = false;
    const auto digit_at = [&](std::size_t at) {
      return at < text_.size() && is_digit_byte(static_cast<unsigned char>(text_[at]));
    };
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::kSign && tokens_.back().text == ".";
    if (!after_dot && end < text_.size() && text_[end] == '.' && digit_at(end + 1)) {
      end = digits_end(end + 1);
      is_float = true;
    }
    if (!after_dot && end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const std::size_t sign = end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-');
      if (digit_at(end + 1 + sign)) {
        end = digits_end(end + 1 + sign);
        is_float = true;
      }
    }
    std::string digits = text_.substr(at_, end - at_);
    std::erase(digits, '_');
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, digits);
    advance(end);
    if (is_name_start(static_cast<unsigned char>(peek()))) {
      refuse(fmt::format("{} is not a number; hexadecimal numbers are not supported", quote(digits + peek())));
    }
  }

  void take_string() {
    const char quote = peek();
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) refuse("the string that begins here does not end");
    try {
      add(TokenKind::kString, unescape(std::string_view(text_).substr(at_ + 1, end - at_ - 1)));
    } catch (const Error& error) {
      refuse(error.what());
    }
    advance(end + 1);
  }

  void take_sign() {
    static constexpr std::array<std::string_view, 6> kLong = {"==", "!=", "<=", ">=", "//", "**"};
    for (const std::string_view sign : kLong) {
      if (starts_with(sign)) {
        add(TokenKind::kSign, std::string(sign));
        return advance(at_ + 2);
      }
    }
    const char c = peek();
    if (std::string_view("+-*/%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      refuse(fmt::format("unexpected character {}", quote(std::string_view(&c, 1))));
    }
    if (c == '(' || c == '[' || c == '{') brackets_ += c;
    if (c == ')' || c == ']' || c == '}') {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets_.empty() || brackets_.back() != open) refuse(fmt::format("'{}' has no opening bracket", c));
      brackets_.pop_back();
    }
    add(TokenKind::kSign, std::string(1, c));
    advance(at_ + 1);
  }

  const std::string text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string brackets_;  // open brackets in this tag
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace mortise::jinja
