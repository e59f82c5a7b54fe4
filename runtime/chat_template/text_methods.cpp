#include "chat_template/text_methods.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "chat_template/unicode.hpp"

namespace mortise::jinja {
namespace {

const MarkedText& text(const Value& self) {
  return *self.text();
}

template <Case wanted>
Value cased(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters none(arguments, "this method", {});
  runtime.budget().read(8 * text(self).size());
  return runtime.make().text(with_case(text(self), wanted));
}

template <Ends ends>
Value stripped(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, "strip", {"chars"});
  const MarkedText* characters = parameters.optional_text(0);
  const std::size_t each = characters == nullptr ? 1 : characters->size();
  if (!text(self).empty()) runtime.budget().read(std::min<std::size_t>(each * text(self).size(), std::size_t{1} << 40));
  return runtime.make().text(strip(text(self), characters, ends));
}

// Splits at white space, without empty parts.
std::vector<Value> split_at_space(const MarkedText& whole, std::int64_t most, Runtime& runtime) {
  std::vector<Value> parts;
  const std::string& bytes = whole.bytes();
  runtime.budget().read(8 * bytes.size());
  const auto skip = [&](std::size_t at, bool space) {
    for (std::size_t next = at; at < bytes.size(); at = next) {
      if (is_space(next_character(bytes, next)) != space) break;
    }
    return at;
  };
  for (std::size_t begin = skip(0, /*space=*/true); begin < bytes.size();) {
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) >= most) {
      parts.push_back(runtime.make().text(strip(whole.substr(begin, bytes.size()), nullptr, Ends::kRight)));
      break;
    }
    const std::size_t end = skip(begin, /*space=*/false);
    parts.push_back(runtime.make().text(whole.substr(begin, end)));
    begin = skip(end, /*space=*/true);
  }
  return parts;
}

Value split(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, "split", {"sep", "maxsplit"});
  std::int64_t most = parameters.integer(1, -1);
  const MarkedText* separator = parameters.optional_text(0);
  const MarkedText& whole = text(self);
  if (separator == nullptr) return runtime.make().list(split_at_space(whole, most, runtime));
  if (separator->empty()) fail("split(): the separator is empty");
  runtime.budget().read(whole.size());
  std::vector<Value> parts;
  std::size_t done = 0;
  for (; most != 0; --most) {
    const void* found =
        memmem(whole.bytes().data() + done, whole.size() - done, separator->bytes().data(), separator->size());
    if (found == nullptr) break;
    const auto at = static_cast<std::size_t>(static_cast<const char*>(found) - whole.bytes().data());
    parts.push_back(runtime.make().text(whole.substr(done, at)));
    done = at + separator->size();
  }
  parts.push_back(runtime.make().text(whole.substr(done, whole.size())));
  return runtime.make().list(std::move(parts));
}

Value rsplit(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, "rsplit", {"sep", "maxsplit"});
  std::int64_t most = parameters.integer(1, -1);
  if (most < 0) return split(runtime, self, arguments);
  const MarkedText& separator = parameters.text(0);
  if (separator.empty()) fail("split(): the separator is empty");
  const MarkedText& whole = text(self);
  std::vector<Value> parts;
  std::size_t end = whole.size();
  for (; most > 0; --most) {
    runtime.budget().read(end * (1 + separator.size() / 8));
    const std::size_t at = std::string_view(whole.bytes()).substr(0, end).rfind(separator.bytes());
    if (at == std::string_view::npos) break;
    parts.insert(parts.begin(), runtime.make().text(whole.substr(at + separator.size(), end)));
    end = at;
  }
  parts.insert(parts.begin(), runtime.make().text(whole.substr(0, end)));
  return runtime.make().list(std::move(parts));
}

enum class Which { kFirst, kLast };
enum class IfAbsent { kMinusOne, kError };

template <Which which>
Value partition(Runtime& runtime, const Value& self, Arguments& arguments) {
  const MarkedText& separator = Parameters(arguments, "partition", {"sep"}).text(0);
  if (separator.empty()) fail("partition(): the separator is empty");
  const MarkedText& whole = text(self);
  runtime.budget().read(whole.size() * (1 + separator.size() / 8));
  constexpr bool last = which == Which::kLast;
  const std::size_t at = last ? whole.bytes().rfind(separator.bytes()) : whole.bytes().find(separator.bytes());
  const auto part = [&](std::size_t begin, std::size_t end) { return runtime.make().text(whole.substr(begin, end)); };
  const Value none = runtime.make().text("");
  if (at == std::string::npos) {
    return last ? runtime.make().tuple({none, none, self}) : runtime.make().tuple({self, none, none});
  }
  const std::size_t after = at + separator.size();
  return runtime.make().tuple({part(0, at), part(at, after), part(after, whole.size())});
}

Value splitlines(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, "splitlines", {"keepends"});
  std::vector<Value> lines;
  runtime.budget().read(8 * text(self).size());
  each_line(text(self), parameters.truth(0, false), [&](std::size_t begin, std::size_t end) {
    lines.push_back(runtime.make().text(text(self).substr(begin, end)));
  });
  return runtime.make().list(std::move(lines));
}

template <bool start>
Value has_affix(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, start ? "startswith" : "endswith", {"affix"});
  const auto fits = [&](const Value& affix) {
    if (affix.text() == nullptr) fail("startswith() and endswith() take a text or a tuple of them");
    runtime.budget().read(affix.text()->size());
    const std::string& bytes = text(self).bytes();
    return start ? bytes.starts_with(affix.text()->bytes()) : bytes.ends_with(affix.text()->bytes());
  };
  const Sequence* several = parameters.at(0).object<Sequence>();
  if (several == nullptr || several->shape != Sequence::Shape::kTuple) return fits(parameters.at(0));
  return std::ranges::any_of(several->items, fits);
}

template <bool start>
Value without_affix(Runtime& runtime, const Value& self, Arguments& arguments) {
  const MarkedText& affix = Parameters(arguments, "removeprefix", {"affix"}).text(0);
  const std::string& bytes = text(self).bytes();
  runtime.budget().read(affix.size());
  const bool fits = start ? bytes.starts_with(affix.bytes()) : bytes.ends_with(affix.bytes());
  if (!fits) return self;
  return runtime.make().text(start ? text(self).substr(affix.size(), bytes.size())
                                   : text(self).substr(0, bytes.size() - affix.size()));
}

Value replaced(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, "replace", {"old", "new", "count"});
  return runtime.make().text(
      replace(text(self), parameters.text(0), parameters.text(1), parameters.integer(2, -1), runtime));
}

// The position of a text in characters.
template <Which which, IfAbsent if_absent>
Value position(Runtime& runtime, const Value& self, Arguments& arguments) {
  const MarkedText& sought = Parameters(arguments, "find", {"sub"}).text(0);
  const std::string& bytes = text(self).bytes();
  runtime.budget().read(bytes.size() * (1 + sought.size() / 8));
  const std::size_t at = which == Which::kLast ? bytes.rfind(sought.bytes()) : bytes.find(sought.bytes());
  if (at != bytes.npos) return static_cast<std::int64_t>(count_characters(std::string_view(bytes).substr(0, at)));
  if (if_absent == IfAbsent::kError) fail("index(): the text is not in the other text");
  return std::int64_t{-1};
}

Value counted(Runtime& runtime, const Value& self, Arguments& arguments) {
  const MarkedText& sought = Parameters(arguments, "count", {"sub"}).text(0);
  const std::string& bytes = text(self).bytes();
  runtime.budget().read(bytes.size() * (1 + sought.size() / 8));
  if (sought.empty()) return static_cast<std::int64_t>(count_characters(bytes)) + 1;
  std::int64_t count = 0;
  for (std::size_t at = bytes.find(sought.bytes()); at != bytes.npos; at = bytes.find(sought.bytes(), at)) {
    ++count;
    at += sought.size();
  }
  return count;
}

Value joined(Runtime& runtime, const Value& self, Arguments& arguments) {
  const std::vector<Value> items = runtime.items_of(Parameters(arguments, "join", {"items"}).at(0));
  for (const Value& item : items) {
    if (item.text() == nullptr)
      fail("join(): an item is {}; expected texts (the filter join accepts any value)", item.type_with_article());
  }
  return runtime.make().text(join(items, text(self), runtime));
}

Value formatted(Runtime& runtime, const Value& self, Arguments& arguments) {
  return runtime.make().text(format_braces(text(self), arguments, runtime));
}

template <bool (*is_right)(std::int32_t)>
Value consists_of(Runtime& runtime, const Value& self, Arguments&) {
  const std::string& bytes = text(self).bytes();
  runtime.budget().read(8 * bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    if (!is_right(next_character(bytes, at))) return false;
  }
  return !bytes.empty();
}

template <Case wanted>
Value is_all(Runtime& runtime, const Value& self, Arguments& arguments) {
  return find_test(wanted == Case::kLower ? "lower" : "upper")(runtime, self, arguments);
}

enum class Padding { kRight, kLeft, kZeros };

// Pads to a width in characters: on the right or the left with the given character, or on the left with zeros, which a
// sign stays in front of.
template <Padding how>
Value padded(Runtime& runtime, const Value& self, Arguments& arguments) {
  constexpr bool zeros = how == Padding::kZeros, left = how != Padding::kRight;
  const Parameters parameters(arguments, "ljust, rjust or zfill", {"width", "fillchar"});
  const auto size = static_cast<std::int64_t>(count_characters(text(self).bytes()));
  parameters.at(0);
  const std::int64_t width = parameters.integer(0, 0);
  runtime.budget().read(text(self).size());
  if (width <= size) return self;  // no subtraction, which could overflow
  const std::int64_t missing = width - size;
  const Counted room(&runtime.budget(), static_cast<std::size_t>(missing));
  const MarkedText space(" ", Source::kTemplate), zero("0", Source::kTemplate);
  const MarkedText& fill = zeros ? zero : parameters.has(1) ? parameters.text(1) : space;
  if (count_characters(fill.bytes()) != 1) fail("the fill of ljust() and rjust() must be one character");
  MarkedText padding;
  for (std::int64_t i = 0; i < missing; ++i) padding.append(fill);
  const std::string& bytes = text(self).bytes();
  const std::size_t sign = zeros && !bytes.empty() && (bytes[0] == '-' || bytes[0] == '+');
  MarkedText out = text(self).substr(0, left ? sign : bytes.size());
  out.append(padding);
  if (left) out.append(text(self), sign, bytes.size());
  return runtime.make().text(std::move(out));
}

bool is_letter_or_digit(std::int32_t character) {
  return is_alphabetic(character) || is_digit(character);
}

}  // namespace

Method find_text_method(std::string_view name) {
  static const std::unordered_map<std::string_view, Method> kMethods = {
      {"strip", stripped<Ends::kBoth>},
      {"lstrip", stripped<Ends::kLeft>},
      {"rstrip", stripped<Ends::kRight>},
      {"split", split},
      {"rsplit", rsplit},
      {"partition", partition<Which::kFirst>},
      {"rpartition", partition<Which::kLast>},
      {"splitlines", splitlines},
      {"startswith", has_affix<true>},
      {"endswith", has_affix<false>},
      {"removeprefix", without_affix<true>},
      {"removesuffix", without_affix<false>},
      {"replace", replaced},
      {"find", position<Which::kFirst, IfAbsent::kMinusOne>},
      {"rfind", position<Which::kLast, IfAbsent::kMinusOne>},
      {"index", position<Which::kFirst, IfAbsent::kError>},
      {"rindex", position<Which::kLast, IfAbsent::kError>},
      {"count", counted},
      {"join", joined},
      {"format", formatted},
      {"upper", cased<Case::kUpper>},
      {"lower", cased<Case::kLower>},
      {"title", cased<Case::kTitle>},
      {"capitalize", cased<Case::kCapitalized>},
      {"isspace", consists_of<is_space>},
      {"isdigit", consists_of<is_digit>},
      {"isalpha", consists_of<is_alphabetic>},
      {"isalnum", consists_of<is_letter_or_digit>},
      {"islower", is_all<Case::kLower>},
      {"isupper", is_all<Case::kUpper>},
      {"ljust", padded<Padding::kRight>},
      {"rjust", padded<Padding::kLeft>},
      {"zfill", padded<Padding::kZeros>}};
  const auto at = kMethods.find(name);
  return at == kMethods.end() ? nullptr : at->second;
}

}  // namespace mortise::jinja
