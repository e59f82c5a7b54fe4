// Python's str() and repr() of values.
#include <utf8proc.h>

#include <charconv>
#include <cmath>

#include "chat_template/unicode.hpp"
#include "chat_template/value.hpp"

namespace mortise::jinja {
namespace {

bool is_printable(std::int32_t character) {
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return character == ' ';
    default:
      return true;
  }
}

std::string escape(std::int32_t character) {
  switch (character) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (character < 0x100) return fmt::format("\\x{:02x}", character);
  return character < 0x10000 ? fmt::format("\\u{:04x}", character) : fmt::format("\\U{:08x}", character);
}

void append_quoted(const MarkedText& text, MarkedText& out) {
  const std::string& bytes = text.bytes();
  const bool doubled = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
  const char quote = doubled ? '"' : '\'';
  out.append(std::string_view(&quote, 1), Source::kTemplate);
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t begin = at;
    const std::int32_t character = next_character(bytes, at);
    const Source source = text.source_at(begin);
    if (character == quote || character == '\\') {
      out.append("\\", source);
      out.append(text, begin, at);
    } else if (is_printable(character)) {
      out.append(text, begin, at);
    } else {
      out.append(escape(character), source);
    }
  }
  out.append(std::string_view(&quote, 1), Source::kTemplate);
}

// Writes one value as Python's repr() does, and pays for it. Used by one thread.
class Printer {
 public:
  Printer(MarkedText& out, Budget& budget) : out_(out), budget_(budget), growth_(budget) {}

  void print(const Value& value) {
    budget_.step();
    if (const MarkedText* text = value.text()) {
      budget_.read(4 * text->size());
      append_quoted(*text, out_);
    } else if (const Sequence* sequence = value.object<Sequence>()) {
      print_sequence(*sequence);
    } else if (const Dict* dict = value.object<Dict>()) {
      write("{");
      print_entries(dict->entries);
      write("}");
    } else if (value.is_undefined()) {
      write("Undefined");
    } else {
      out_.append(to_text(value, budget_));
    }
    // Pays while printing, because a list that occurs in many places grows the text faster than anything else.
    growth_.reach(out_.memory());
  }

 private:
  void write(std::string_view text) { out_.append(text, Source::kTemplate); }

  void print_items(const std::vector<Value>& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) write(", ");
      print(items[i]);
    }
  }
  void print_entries(const Dict::Entries& entries) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) write(", ");
      print(entries[i].first);
      write(": ");
      print(entries[i].second);
    }
  }
  void print_sequence(const Sequence& sequence) {
    switch (sequence.shape) {
      case Sequence::Shape::kTuple:
        write("(");
        print_items(sequence.items);
        return write(sequence.items.size() == 1 ? ",)" : ")");
      case Sequence::Shape::kView:
        write(std::string(sequence.name) + "([");
        print_items(sequence.items);
        return write("])");
      case Sequence::Shape::kGenerator:
        fail("a generator is printed; make it a list first: | list");
      case Sequence::Shape::kRange:
        fail("a range is printed; make it a list first: | list");
      case Sequence::Shape::kList:
        break;
    }
    write("[");
    print_items(sequence.items);
    write("]");
  }

  MarkedText& out_;
  Budget& budget_;
  Growth growth_;
};

}  // namespace

// The shortest digits that give the same `value` when read. With an exponent below 0.0001 and from 10^16 on.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr;
  const std::string scientific(digits, end);
  const std::size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  char fixed[64];
  const auto fixed_end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed).ptr;
  std::string text(fixed, fixed_end);
  if (text.find('.') == text.npos) text += ".0";
  return text;
}

MarkedText to_text(const Value& value, Budget& budget) {
  if (const MarkedText* text = value.text()) return *text;
  const auto plain = [](std::string_view text) { return MarkedText(text, Source::kTemplate); };
  if (value.is_undefined()) return {};
  if (value.is_none()) return plain("None");
  if (const auto* is = value.get_if<bool>()) return plain(*is ? "True" : "False");
  if (const auto* whole = value.get_if<std::int64_t>()) return plain(std::to_string(*whole));
  if (const auto* number = value.get_if<double>()) return plain(float_text(*number));
  if (value.object<Sequence>() == nullptr && value.object<Dict>() == nullptr) {
    fail("{} cannot be printed as a text", value.type_with_article());
  }
  MarkedText out;
  append_repr(value, out, budget);
  return out;
}

void append_repr(const Value& value, MarkedText& out, Budget& budget) {
  Printer(out, budget).print(value);
}

}  // namespace mortise::jinja
