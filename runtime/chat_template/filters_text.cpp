// Filters of texts, and tojson.
#include "chat_template/filters.hpp"
#include "chat_template/unicode.hpp"

namespace mortise::jinja {
namespace {

Value as_text(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters none(arguments, "string", {});
  return runtime.make().text(runtime.text_of(value));
}

Value safe(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters none(arguments, "safe", {});
  return runtime.make().markup(runtime.text_of(value));
}

template <Case wanted>
Value cased(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters none(arguments, "this filter", {});
  const MarkedText text = runtime.text_of(value);
  runtime.budget().read(8 * text.size());
  return runtime.make().text(with_case(text, wanted));
}

// A word begins after white space or an opening bracket.
Value title(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters none(arguments, "title", {});
  const MarkedText text = runtime.text_of(value);
  runtime.budget().read(16 * text.size());
  MarkedText out;
  std::size_t begin = 0;
  const auto flush = [&](std::size_t end) {
    if (begin < end) {
      std::size_t second = begin;
      next_character(text.bytes(), second);
      out.append(with_case(text.substr(begin, second), Case::kUpper));
      out.append(with_case(text.substr(second, end), Case::kLower));
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const std::int32_t character = next_character(text.bytes(), at);
    const bool separates =
        is_space(character) ||
        (character < 0x80 && std::string_view("-({[<").find(static_cast<char>(character)) != std::string_view::npos);
    if (!separates) continue;
    flush(start);
    out.append(text, start, at);
    begin = at;
  }
  flush(text.size());
  return runtime.make().text(std::move(out));
}

Value trim(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "trim", {"chars"});
  const MarkedText text = runtime.text_of(value);
  const MarkedText* characters = parameters.optional_text(0);
  if (characters != nullptr) runtime.budget().read(std::min(characters->size() * text.size(), std::size_t{1} << 40));
  return runtime.make().text(strip(text, characters, Ends::kBoth));
}

Value replaced(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "replace", {"old", "new", "count"});
  return runtime.make().text(
      replace(runtime.text_of(value), runtime.text_of(parameters.at(0)), runtime.text_of(parameters.at(1)),
              parameters.has(2) && parameters.at(2).is_none() ? -1 : parameters.integer(2, -1), runtime));
}

// A number of spaces, or the given text.
MarkedText indentation(Runtime& runtime, const Value* width, std::int64_t otherwise) {
  constexpr std::int64_t kMax = 1000;
  if (width != nullptr && width->text() != nullptr) {
    if (width->text()->size() > kMax) fail("an indent is a text of more than {} bytes", kMax);
    return *width->text();
  }
  const std::int64_t count = width == nullptr ? otherwise : width->integer().value_or(-1);
  if (count > kMax || (width != nullptr && !width->integer())) {
    fail("an indent is {}, or more than {}; expected a number of spaces or a text", width->type_with_article(), kMax);
  }
  runtime.budget().step();
  return MarkedText(std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, count)), ' '), Source::kTemplate);
}

Value indent(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "indent", {"width", "first", "blank"});
  if (value.text() == nullptr) fail("indent needs a text, not {}", value.type_with_article());
  const MarkedText space = indentation(runtime, parameters.find(0), 4);
  const bool blank = parameters.truth(2, false);
  const Counted room(&runtime.budget(), value.text()->memory());  // for the copy
  MarkedText text = *value.text(), out;
  runtime.budget().read(8 * text.size());
  text.append("\n", Source::kTemplate);
  Growth growth(runtime.budget());
  bool first = true;
  each_line(text, /*keep_ends=*/false, [&](std::size_t begin, std::size_t end) {
    if (!first) out.append("\n", Source::kTemplate);
    const bool indents = first ? parameters.truth(1, false) : blank || begin < end;
    if (indents) out.append(space);
    out.append(text, begin, end);
    growth.reach(out.memory());
    first = false;
  });
  return runtime.make().text(std::move(out));
}

Value format(Runtime& runtime, const Value& value, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("the filter 'format' accepts named values or positional values, not both");
  }
  Dict::Entries named;
  for (const auto& [name, argument] : arguments.named) named.emplace_back(runtime.make().text(name), argument);
  const bool has_names = !named.empty();
  const Value dict = runtime.make().dict(std::move(named));
  return runtime.make().text(
      format_percent(runtime.text_of(value), arguments.positional, has_names ? dict.object<Dict>() : nullptr, runtime));
}

Value tojson(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonFormat json;
  json.ensure_ascii = parameters.truth(0, false);
  json.sort_keys = parameters.truth(3, false);
  if (parameters.has(1) && !parameters.at(1).is_none()) {
    json.indent = indentation(runtime, parameters.find(1), 0);
    json.item_separator = {",", Source::kTemplate};
  }
  if (parameters.has(2) && !parameters.at(2).is_none()) {
    const std::vector<Value> both = runtime.items_of(parameters.at(2));
    if (both.size() != 2) fail("tojson: 'separators' must be two texts");
    json.item_separator = runtime.text_of(both[0]);
    json.key_separator = runtime.text_of(both[1]);
  }
  return runtime.make().text(to_json(value, json, runtime.budget()));
}

constexpr NamedFilter kTextFilters[] = {{"string", as_text},
                                        {"safe", safe},
                                        {"upper", cased<Case::kUpper>},
                                        {"lower", cased<Case::kLower>},
                                        {"capitalize", cased<Case::kCapitalized>},
                                        {"title", title},
                                        {"trim", trim},
                                        {"replace", replaced},
                                        {"indent", indent},
                                        {"format", format},
                                        {"tojson", tojson}};

}  // namespace

std::span<const NamedFilter> text_filters() {
  return kTextFilters;
}

}  // namespace mortise::jinja
