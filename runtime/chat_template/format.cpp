// "{} {name:>5}".format(...) and "%s %d" % (...), with Python's format specifications for texts, integers and floats.
#include <algorithm>
#include <cmath>

#include "chat_template/runtime.hpp"
#include "chat_template/unicode.hpp"

namespace mortise::jinja {
namespace {

constexpr std::size_t kMaxWidth = 1000;

struct Specification {
  MarkedText fill = {" ", Source::kTemplate};
  char align = '\0';  // '<', '>', '^', or '=' (between sign and digits); '\0': depends on the value
  char sign = '-';
  bool grouped = false, alternate = false;
  std::size_t width = 0;
  std::optional<std::size_t> precision;
  char type = '\0';
};

// A position in a format string. Used by one thread.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool done() const { return at_ == text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool skip(char c) { return !done() && peek() == c && (++at_, true); }
  char take() { return done() ? '\0' : text_[at_++]; }
  std::optional<std::size_t> number() {
    if (done() || peek() < '0' || peek() > '9') return std::nullopt;
    std::size_t value = 0;
    while (!done() && peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::size_t>(take() - '0');
      if (value > kMaxWidth) fail("a format has a width or precision of more than {}", kMaxWidth);
    }
    return value;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

// Reads the specification of "{:...}" in the bytes [begin, end) of a format.
Specification read_specification(const MarkedText& format, std::size_t begin, std::size_t end) {
  Specification specification;
  const std::string_view text = std::string_view(format.bytes()).substr(begin, end - begin);
  Reader reader(text);
  if (!text.empty()) {
    std::size_t after = 0;
    next_character(text, after);
    if (after < text.size() && is_align(text[after])) {
      specification.fill = format.substr(begin, begin + after);
      specification.align = text[after];
      reader.at_ = after + 1;
    } else if (is_align(text[0])) {
      specification.align = reader.take();
    }
  }
  if (reader.peek() == '+' || reader.peek() == '-' || reader.peek() == ' ') specification.sign = reader.take();
  specification.alternate = reader.skip('#');
  if (reader.skip('0') && specification.align == '\0') {
    specification.fill = {"0", Source::kTemplate};
    specification.align = '=';
  }
  specification.width = reader.number().value_or(0);
  specification.grouped = reader.skip(',');
  if (reader.skip('.')) specification.precision = reader.number();
  specification.type = reader.take();
  if (!reader.done()) fail("a format specification is not supported");
  return specification;
}

std::string grouped_by_thousands(const std::string& digits) {
  const std::size_t end = std::min(digits.find_first_of(".e"), digits.size());
  std::string out = digits.substr(end);
  for (std::size_t i = 0; i < end; ++i) {
    if (i > 0 && i % 3 == 0) out.insert(0, ",");
    out.insert(0, 1, digits[end - 1 - i]);
  }
  return out;
}

// The digits of a number without its sign.
std::string number_digits(const Value& value, const Specification& specification) {
  const auto whole = value.integer();
  const auto magnitude =
      whole ? (*whole < 0 ? 0 - static_cast<std::uint64_t>(*whole) : static_cast<std::uint64_t>(*whole)) : 0;
  switch (specification.type) {
    case 'd':
    case 'x':
    case 'X':
    case 'o':
      if (!whole) fail("a format of type '{}' has a float; it needs an integer", specification.type);
      if (specification.type == 'x') return fmt::format("{}{:x}", specification.alternate ? "0x" : "", magnitude);
      if (specification.type == 'X') return fmt::format("{}{:X}", specification.alternate ? "0X" : "", magnitude);
      if (specification.type == 'o') return fmt::format("{}{:o}", specification.alternate ? "0o" : "", magnitude);
      return std::to_string(magnitude);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", std::fabs(*value.number()), static_cast<int>(specification.precision.value_or(6)));
    case 'e':
      return fmt::format("{:.{}e}", std::fabs(*value.number()), static_cast<int>(specification.precision.value_or(6)));
    case 'g':
      return fmt::format("{:.{}g}", std::fabs(*value.number()), static_cast<int>(specification.precision.value_or(6)));
    case '%':
      return fmt::format("{:.{}f}%", std::fabs(*value.number() * 100),
                         static_cast<int>(specification.precision.value_or(6)));
    case '\0':
      if (whole) return std::to_string(magnitude);
      if (!specification.precision) return float_text(std::fabs(*value.number()));
      break;
    default:
      break;
  }
  fail("a number has the format type '{}', which is not supported",
       specification.type == '\0' ? '.' : specification.type);
}

void append_padded(const MarkedText& sign, const MarkedText& text, const Specification& specification, char align,
                   MarkedText& out) {
  const std::size_t size = sign.size() + count_characters(text.bytes());
  const std::size_t missing = specification.width > size ? specification.width - size : 0;
  const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto fill = [&](std::size_t count) {
    for (; count > 0; --count) out.append(specification.fill);
  };
  if (align == '=') out.append(sign);
  fill(left);
  if (align != '=') out.append(sign);
  out.append(text);
  fill(missing - left);
}

void append_formatted(const Value& value, const Specification& specification, Runtime& runtime, MarkedText& out) {
  const bool is_number = value.is_number() && (value.get_if<bool>() == nullptr || specification.type != '\0');
  if (!is_number || specification.type == 's') {
    if (specification.type != '\0' && specification.type != 's')
      fail("a format of type '{}' has {}", specification.type, value.type_with_article());
    MarkedText text = runtime.text_of(value);
    if (specification.precision) text.resize(byte_of_character(text.bytes(), *specification.precision));
    return append_padded({}, text, specification, specification.align == '\0' ? '<' : specification.align, out);
  }
  const bool negative = std::signbit(*value.number());
  std::string digits = number_digits(value, specification);
  if (specification.grouped) digits = grouped_by_thousands(digits);
  const std::string_view sign = negative ? "-" : specification.sign == '+' ? "+" : specification.sign == ' ' ? " " : "";
  append_padded({sign, Source::kTemplate}, {digits, Source::kTemplate}, specification,
                specification.align == '\0' ? '>' : specification.align, out);
}

// The value of a field: "name", "0", "name.x[0]", or "", which means the next argument.
Value field(std::string_view name, const Arguments& arguments, std::size_t& next, Runtime& runtime) {
  const std::size_t end = std::min(name.find_first_of(".["), name.size());
  std::string_view head = name.substr(0, end), rest = name.substr(end);
  Value value;
  Reader reader(head);
  const auto index = head.empty() ? std::optional(next++) : reader.number();
  if (index && (head.empty() || reader.done())) {
    if (*index >= arguments.positional.size()) fail("format() has no value for field {}", *index);
    value = arguments.positional[*index];
  } else {
    const auto named = std::ranges::find(arguments.named, head, &std::pair<std::string, Value>::first);
    if (named == arguments.named.end()) fail("format() has no value named '{}'", head);
    value = named->second;
  }
  if (rest.find('[') != rest.npos) fail("format() with [...] in a field is not supported");
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('.'));
    value = runtime.attribute(value, part);
    rest.remove_prefix(part.size());
  }
  return value;
}

}  // namespace

MarkedText format_braces(const MarkedText& format, const Arguments& arguments, Runtime& runtime) {
  const std::string& bytes = format.bytes();
  MarkedText out;
  Growth growth(runtime.budget());
  std::size_t next = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const char c = bytes[at];
    if ((c == '{' || c == '}') && at + 1 < bytes.size() && bytes[at + 1] == c) {
      out.append(format, at, at + 1);
      at += 2;
    } else if (c == '{') {
      const std::size_t end = bytes.find('}', at);
      if (end == bytes.npos) fail("format() has a '{{' without its '}}'");
      const std::string_view inside = std::string_view(bytes).substr(at + 1, end - at - 1);
      const std::size_t colon = std::min(inside.find(':'), inside.size());
      if (inside.find('{') != inside.npos || inside.find('!') < colon) {
        fail("format() with '{{' or '!' in a field is not supported");
      }
      const Value value = field(inside.substr(0, colon), arguments, next, runtime);
      const Specification specification = read_specification(format, std::min(at + 1 + colon + 1, end), end);
      append_formatted(value, specification, runtime, out);
      growth.reach(out.memory());
      at = end + 1;
    } else if (c == '}') {
      fail("format() has a '}}' without its '{{'");
    } else {
      const std::size_t end = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(format, at, end);
      at = end;
    }
  }
  return out;
}

MarkedText format_percent(const MarkedText& format, const std::vector<Value>& values, const Dict* named,
                          Runtime& runtime) {
  const std::string& bytes = format.bytes();
  MarkedText out;
  Growth growth(runtime.budget());
  std::size_t next = 0;
  bool by_name = false;
  Reader reader(bytes);
  while (!reader.done()) {
    const std::size_t end = std::min(bytes.find('%', reader.at_), bytes.size());
    out.append(format, reader.at_, end);
    reader.at_ = end;
    if (!reader.skip('%')) break;
    if (reader.skip('%')) {
      out.append(format, end, end + 1);
      continue;
    }
    const Value* value = nullptr;
    if (reader.skip('(')) {
      const std::size_t close = bytes.find(')', reader.at_);
      if (close == bytes.npos || named == nullptr) fail("a format with %(name) needs a dict and a ')'");
      value = named->find(std::string_view(bytes).substr(reader.at_, close - reader.at_));
      if (value == nullptr) fail("a format with %(name) has a name that is not in the dict");
      reader.at_ = close + 1;
      by_name = true;
    }
    Specification specification;
    specification.align = '>';
    while (std::string_view("-+ 0#").find(reader.peek()) != std::string_view::npos && !reader.done()) {
      const char flag = reader.take();
      if (flag == '-') specification.align = '<';
      if (flag == '+' || flag == ' ') specification.sign = flag;
      if (flag == '#') specification.alternate = true;
      if (flag == '0' && specification.align != '<') specification.align = '=';
    }
    specification.width = reader.number().value_or(0);
    if (reader.skip('.')) specification.precision = reader.number().value_or(0);
    specification.type = reader.take();
    if (value == nullptr) {
      if (next >= values.size()) fail("a format with % has more fields than values");
      value = &values[next++];
    }
    Value number = *value;
    if (specification.type == 'i' || specification.type == 'u') specification.type = 'd';
    if (specification.type == 'd' && number.is_number()) {
      if (!(std::fabs(*number.number()) < 0x1p63)) fail_overflow();
      if (!number.integer()) number = static_cast<std::int64_t>(*number.number());
    }
    if (std::string_view("sdfFegxXo").find(specification.type) == std::string_view::npos ||
        specification.type == '\0') {
      fail("a format with % has a type that is not supported");
    }
    if (specification.align == '=' && specification.type != 's') specification.fill = {"0", Source::kTemplate};
    if (specification.align == '=' && specification.type == 's') specification.align = '>';
    append_formatted(number, specification, runtime, out);
    growth.reach(out.memory());
  }
  if (next < values.size() && !by_name && named == nullptr) fail("a format with % has fewer fields than values");
  return out;
}

}  // namespace mortise::jinja
