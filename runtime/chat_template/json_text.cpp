// Python's json.dumps.
#include <algorithm>
#include <cmath>

#include "chat_template/runtime.hpp"
#include "chat_template/unicode.hpp"

namespace mortise::jinja {
namespace {

// Writes one value as JSON text, and pays for it. Used by one thread.
class JsonWriter {
 public:
  JsonWriter(const JsonFormat& format, Budget& budget) : format_(format), budget_(budget), growth_(budget) {}

  MarkedText run(const Value& value) {
    write(value);
    return std::move(out_);
  }

 private:
  void put(std::string_view text) {
    growth_.reach(out_.memory() + text.size() + sizeof(MarkedText::Run));
    out_.append(text, Source::kTemplate);
  }
  void put(const MarkedText& text) {
    growth_.reach(out_.memory() + text.memory());
    out_.append(text);
  }

  // Writes a line break and the indentation, if there is an indent.
  void line(const MarkedText* before) {
    if (before != nullptr) put(*before);
    if (!format_.indent) return;
    put("\n");
    for (std::size_t i = 0; i < level_; ++i) put(*format_.indent);
  }

  template <typename Range, typename Write>
  void write_all(char open, char close, const Range& range, Write write_one) {
    put(std::string_view(&open, 1));
    if (!range.empty()) {
      ++level_;
      bool first = true;
      for (const auto& item : range) {
        line(first ? nullptr : &format_.item_separator);
        first = false;
        write_one(item);
      }
      --level_;
      line(nullptr);
    }
    put(std::string_view(&close, 1));
    growth_.reach(out_.memory());
  }

  void write(const Value& value) {
    budget_.step();
    if (const MarkedText* text = value.text()) return write_text(*text);
    if (value.is_none()) return put("null");
    if (const auto* is = value.get_if<bool>()) return put(*is ? "true" : "false");
    if (const auto* whole = value.get_if<std::int64_t>()) return put(std::to_string(*whole));
    if (const auto* number = value.get_if<double>()) return put(number_text(*number));
    if (const Sequence* list = value.object<Sequence>(); list && list->shape <= Sequence::Shape::kTuple) {
      return write_all('[', ']', list->items, [&](const Value& item) { write(item); });
    }
    const Dict* dict = value.object<Dict>();
    if (dict == nullptr) fail("{} cannot be written as JSON (tojson)", value.type_with_article());
    Dict::Entries sorted;
    if (format_.sort_keys) {
      sorted = dict->entries;
      std::ranges::stable_sort(sorted, [&](const auto& a, const auto& b) { return less(a.first, b.first, budget_); });
    }
    write_all('{', '}', format_.sort_keys ? sorted : dict->entries, [&](const auto& entry) {
      write_key(entry.first);
      put(format_.key_separator);
      write(entry.second);
    });
  }

  void write_key(const Value& key) {
    if (key.text() != nullptr) return write_text(*key.text());
    if (key.object<Sequence>() != nullptr) fail("a tuple is the key of a dict, which JSON does not allow (tojson)");
    put("\"");
    write(key);
    put("\"");
  }

  static std::string number_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }

  void write_text(const MarkedText& text) {
    budget_.read(4 * text.size());
    // An escape takes up to six bytes per byte.
    const Counted room(&budget_, 6 * text.size() + text.runs().size() * sizeof(MarkedText::Run));
    put("\"");
    std::size_t plain = 0;  // text without escapes is copied in one piece
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const std::int32_t character = next_character(text.bytes(), at);
      const bool escaped =
          character < 0x20 || character == '"' || character == '\\' || (format_.ensure_ascii && character >= 0x7F);
      if (!escaped) continue;
      out_.append(text, plain, begin);
      plain = at;
      out_.append(escape(character), text.source_at(begin));
    }
    out_.append(text, plain, text.size());
    put("\"");
  }

  static std::string escape(std::int32_t character) {
    constexpr std::string_view kCharacters = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    if (character < 0x80) {
      const std::size_t at = kCharacters.find(static_cast<char>(character));
      if (at != kCharacters.npos) return {'\\', kLetters[at]};
    }
    if (character < 0x10000) return fmt::format("\\u{:04x}", character);
    const std::int32_t rest = character - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  const JsonFormat& format_;
  Budget& budget_;
  Growth growth_;
  MarkedText out_;
  std::size_t level_ = 0;
};

}  // namespace

MarkedText to_json(const Value& value, const JsonFormat& format, Budget& budget) {
  return JsonWriter(format, budget).run(value);
}

}  // namespace mortise::jinja
