// Filters that take the names of other filters or tests (map, select, ..), and the table of all filters.
#include <charconv>
#include <unordered_map>

#include "chat_template/filters.hpp"
#include "chat_template/unicode.hpp"
#include "json/bounded_json.hpp"

namespace mortise::jinja {
namespace {

Value default_value(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "default", {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (parameters.truth(1, false) && !value.truth());
  return !missing ? value : parameters.has(0) ? parameters.at(0) : runtime.make().text("");
}

Value attr(Runtime& runtime, const Value& value, Arguments& arguments) {
  const std::string& name = Parameters(arguments, "attr", {"name"}).text(0).bytes();
  if (value.object<Dict>() != nullptr && find_method(value, name) == nullptr) {
    return undefined(fmt::format("a dict has no attribute {}", quote(name)));  // entries are none
  }
  return runtime.attribute(value, name);
}

// The arguments from `begin` on, for the filter or test that is called for each item.
Arguments rest_of(const Arguments& arguments, std::size_t begin) {
  Arguments rest;
  rest.named = arguments.named;
  if (begin < arguments.positional.size()) {
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(begin),
                           arguments.positional.end());
  }
  return rest;
}

const std::string& name_in(const Arguments& arguments, std::size_t at, std::string_view caller) {
  const MarkedText* name = at < arguments.positional.size() ? arguments.positional[at].text() : nullptr;
  if (name == nullptr) fail("'{}' needs the name of a filter, test or attribute, as a text", caller);
  return name->bytes();
}

Value map(Runtime& runtime, const Value& value, Arguments& arguments) {
  std::vector<Value> results;
  if (!value.truth()) return runtime.make().generator({});  // also for none, unlike a loop
  if (arguments.positional.empty()) {
    const Parameters parameters(arguments, "map", {"attribute", "default"});
    const Value path = parameters.at(0);
    for (const Value& item : runtime.items_of(value)) {
      Value result = attribute_path(runtime, item, &path);
      results.push_back(result.is_undefined() && parameters.has(1) ? parameters.at(1) : std::move(result));
    }
  } else {
    const std::string& name = name_in(arguments, 0, "map");
    const Filter filter = find_filter(name);
    if (filter == nullptr) fail("the filter {} is not supported", quote(name));
    for (const Value& item : runtime.items_of(value)) {
      const Level level(runtime.budget());
      Arguments rest = rest_of(arguments, 1);
      results.push_back(filter(runtime, item, rest));
    }
  }
  return runtime.make().generator(std::move(results));
}

enum class Tested { kItem, kAttribute };
enum class Keeps { kMatches, kOthers };

template <Tested tests, Keeps keeps>
Value select(Runtime& runtime, const Value& value, Arguments& arguments) {
  constexpr bool attribute = tests == Tested::kAttribute, wanted = keeps == Keeps::kMatches;
  const std::size_t at = attribute ? 1 : 0;
  const Value* path = nullptr;
  if (attribute) {
    if (arguments.positional.empty()) fail("'{}' needs the name of an attribute", wanted ? "selectattr" : "rejectattr");
    path = &arguments.positional[0];
  }
  Test test = nullptr;
  if (arguments.positional.size() > at) {
    const std::string& name = name_in(arguments, at, "select or reject");
    test = find_test(name);
    if (test == nullptr) fail("the test {} is not supported", quote(name));
  }
  std::vector<Value> kept;
  if (!value.truth()) return runtime.make().generator({});
  for (const Value& item : runtime.items_of(value)) {
    const Value tested = attribute_path(runtime, item, path);
    Arguments rest = rest_of(arguments, at + 1);
    runtime.budget().step();
    if ((test != nullptr ? test(runtime, tested, rest) : tested.truth()) == wanted) kept.push_back(item);
  }
  return runtime.make().generator(std::move(kept));
}

constexpr NamedFilter kSelectFilters[] = {{"default", default_value},
                                          {"d", default_value},
                                          {"attr", attr},
                                          {"map", map},
                                          {"select", select<Tested::kItem, Keeps::kMatches>},
                                          {"reject", select<Tested::kItem, Keeps::kOthers>},
                                          {"selectattr", select<Tested::kAttribute, Keeps::kMatches>},
                                          {"rejectattr", select<Tested::kAttribute, Keeps::kOthers>}};

}  // namespace

std::span<const NamedFilter> selecting_filters() {
  return kSelectFilters;
}

Value attribute_path(Runtime& runtime, const Value& item, const Value* path) {
  if (path == nullptr || path->is_none()) return item;
  if (path->text() == nullptr) return runtime.item(item, *path);
  std::string_view rest = path->text()->bytes();
  Value value = item;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = error == std::errc{} && end == part.data() + part.size() && part[0] != '-';
    value = runtime.item(value, is_index ? Value(index) : runtime.make().text(part));
    if (part.size() == rest.size()) return value;
    rest.remove_prefix(part.size() + 1);
  }
}

Value without_case(Runtime& runtime, const Value& value) {
  if (value.text() == nullptr) return value;
  runtime.budget().read(8 * value.text()->size());
  return runtime.make().text(with_case(*value.text(), Case::kLower));
}

Filter find_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> kAll = [] {
    std::unordered_map<std::string_view, Filter> all;
    for (const auto filters : {text_filters(), number_filters(), list_filters(), selecting_filters()}) {
      all.insert(filters.begin(), filters.end());
    }
    return all;
  }();
  const auto at = kAll.find(name);
  return at == kAll.end() ? nullptr : at->second;
}

}  // namespace mortise::jinja
