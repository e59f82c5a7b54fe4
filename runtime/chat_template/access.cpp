// x.name, x[key] and x[begin:end:step].
#include <algorithm>

#include "chat_template/runtime.hpp"
#include "chat_template/unicode.hpp"
#include "json/bounded_json.hpp"

namespace mortise::jinja {
namespace {

constexpr std::string_view kChangingDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kChangingLists[] = {"append", "clear",  "extend",  "insert",
                                               "pop",    "remove", "reverse", "sort"};

bool changes(const Value& value, std::string_view name) {
  if (value.object<Dict>() != nullptr) return std::ranges::find(kChangingDicts, name) != std::end(kChangingDicts);
  const Sequence* list = value.object<Sequence>();
  const bool is_list = list != nullptr && list->shape == Sequence::Shape::kList;
  return is_list && std::ranges::find(kChangingLists, name) != std::end(kChangingLists);
}

Value no_such(Runtime& runtime, const Value& value, std::string_view name) {
  return runtime.missing(fmt::format("{} has no '{}'", value.type_with_article(), short_name(name)));
}

Value loop_attribute(Runtime& runtime, const Value& self, std::string_view name) {
  const Loop& loop = *self.object<Loop>();
  const auto number = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  const std::size_t size = loop.items.size();
  if (name == "index") return number(loop.index + 1);
  if (name == "index0") return number(loop.index);
  if (name == "revindex") return number(size - loop.index);
  if (name == "revindex0") return number(size - loop.index - 1);
  if (name == "first") return loop.index == 0;
  if (name == "last") return loop.index + 1 == size;
  if (name == "length") return number(size);
  if (name == "depth") return number(1);  // it counts the recursion of recursive loops, which are not supported
  if (name == "depth0") return number(0);
  if (name == "previtem") return loop.index == 0 ? undefined("there is no previous item") : loop.items[loop.index - 1];
  if (name == "nextitem") {
    return loop.index + 1 == size ? undefined("there is no next item") : loop.items[loop.index + 1];
  }
  if (name == "cycle") {
    return runtime.make().callable(
        "cycle",
        [self](Runtime&, Arguments& arguments) {
          if (arguments.positional.empty()) fail("loop.cycle needs values to cycle through");
          return arguments.positional[self.object<Loop>()->index % arguments.positional.size()];
        },
        self);
  }
  if (name == "changed") {
    return runtime.make().callable(
        "changed",
        [self](Runtime& caller, Arguments& arguments) -> Value {
          // Refuses lists and the like, because the loop keeps the values, and a list could hold the loop itself: a
          // cycle.
          for (const Value& value : arguments.positional) {
            if (value.is_number() || value.is_none() || value.is_undefined() || value.text() != nullptr) continue;
            fail("loop.changed can compare texts and numbers, not {}", value.type_with_article());
          }
          std::vector<Value>& last = self.object<Loop>()->last_changed;
          const auto same = [&](const Value& a, const Value& b) { return equal(a, b, caller.budget()); };
          const bool changed = self.object<Loop>()->index == 0 || !std::ranges::equal(last, arguments.positional, same);
          last = arguments.positional;
          return changed;
        },
        self);
  }
  return no_such(runtime, self, name);
}

// A position as Python counts it (from the end if it is negative), limited to [low, high].
std::int64_t place(const Value& value, std::int64_t otherwise, std::int64_t size, std::int64_t low, std::int64_t high) {
  if (value.is_none()) return otherwise;
  const auto given = value.integer();
  if (!given) fail("a bound of a slice is {}; expected an integer", value.type_with_article());
  return std::clamp(*given < 0 ? std::max(*given, -size - 1) + size : *given, low, high);
}

// The indices that begin:end:step selects: first, first + step, .. (`count` of them).
struct Slice {
  std::int64_t first, step, count;
};

Slice sliced(std::int64_t size, const Value& begin, const Value& end, const Value& by) {
  std::int64_t step = by.is_none() ? 1 : by.integer().value_or(0);
  if (step == 0) fail("the step of a slice must be an integer other than 0");
  step = std::clamp(step, -size - 1, size + 1);  // a longer step selects the same items
  const bool down = step < 0;
  const std::int64_t low = down ? -1 : 0, high = down ? size - 1 : size;
  const std::int64_t first = place(begin, down ? high : low, size, low, high);
  const std::int64_t last = place(end, down ? low : high, size, low, high);
  const std::int64_t distance = down ? first - last : last - first, pace = down ? -step : step;
  return {first, step, distance <= 0 ? 0 : (distance + pace - 1) / pace};
}

MarkedText sliced_text(Runtime& runtime, const MarkedText& text, const Value& begin, const Value& end,
                       const Value& by) {
  runtime.budget().read(4 * text.size());
  const std::size_t size = count_characters(text.bytes());
  const Slice slice = sliced(static_cast<std::int64_t>(size), begin, end, by);
  MarkedText part;
  if (slice.count == 0) return part;
  if (slice.step == 1) {
    const std::size_t from = byte_of_character(text.bytes(), static_cast<std::size_t>(slice.first));
    const std::string_view rest = std::string_view(text.bytes()).substr(from);
    part.append(text, from, from + byte_of_character(rest, static_cast<std::size_t>(slice.count)));
    return part;
  }
  const Counted room(&runtime.budget(), size * sizeof(std::size_t));
  std::vector<std::size_t> starts;  // start of each character
  starts.reserve(size + 1);
  for (std::size_t at = 0; at < text.size(); next_character(text.bytes(), at)) starts.push_back(at);
  starts.push_back(text.size());
  Growth growth(runtime.budget());
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const auto at = static_cast<std::size_t>(slice.first + i * slice.step);
    part.append(text, starts[at], starts[at + 1]);
    growth.reach(part.memory());
  }
  return part;
}

}  // namespace

std::string short_name(std::string_view name) {
  constexpr std::size_t kMax = 60;
  const std::string quoted = quote(name.substr(0, kMax));
  return quoted.substr(1, quoted.size() - 2) + (name.size() > kMax ? "..." : "");
}

Value Runtime::attribute(const Value& value, std::string_view name) {
  budget_.step();
  if (const auto* missing = value.get_if<Undefined>()) fail("{}", *missing->why);
  if (Namespace* space = value.object<Namespace>()) {
    const Value* found = space->find(name);
    return found != nullptr ? *found : no_such(*this, value, name);
  }
  if (value.object<Loop>() != nullptr) return loop_attribute(*this, value, name);
  if (const Method method = find_method(value, name)) {
    return make().callable(
        std::string(name),
        [method, value](Runtime& runtime, Arguments& arguments) { return method(runtime, value, arguments); }, value);
  }
  if (changes(value, name)) {
    return undefined(fmt::format("a template may not change {} ('{}')", value.type_with_article(), short_name(name)));
  }
  if (const Dict* dict = value.object<Dict>()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return no_such(*this, value, name);
}

Value Runtime::item(const Value& value, const Value& key) {
  budget_.step();
  if (const auto* missing = value.get_if<Undefined>()) fail("{}", *missing->why);
  if (const Dict* dict = value.object<Dict>()) {
    if (const Value* found = dict->find(key)) return *found;
  }
  const Sequence* sequence = value.object<Sequence>();
  if (const auto index = key.integer(); index && (value.text() || (sequence && sequence->is_indexable()))) {
    const auto size = static_cast<std::int64_t>(length(value));
    const std::int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) return this->missing(fmt::format("{} has no item {}", value.type_with_article(), *index));
    if (sequence != nullptr) return sequence->items[static_cast<std::size_t>(at)];
    const MarkedText& text = *value.text();
    const std::size_t begin = byte_of_character(text.bytes(), static_cast<std::size_t>(at));
    std::size_t end = begin;
    next_character(text.bytes(), end);
    return make().text(text.substr(begin, end));
  }
  if (const MarkedText* name = key.text()) {
    if (value.object<Dict>() == nullptr || find_method(value, name->bytes())) return attribute(value, name->bytes());
  }
  const MarkedText* text = key.text();
  const std::string name = text != nullptr   ? quote(short_name(text->bytes()))
                           : key.is_number() ? to_text(key, budget_).bytes()
                                             : fmt::format("by {}", key.type_with_article());
  return this->missing(fmt::format("{} has no item {}", value.type_with_article(), name));
}

Value Runtime::slice(const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (const auto* missing = value.get_if<Undefined>()) fail("{}", *missing->why);
  if (const Sequence* sequence = value.object<Sequence>(); sequence != nullptr && sequence->is_indexable()) {
    const Slice slice = sliced(static_cast<std::int64_t>(sequence->items.size()), begin, end, step);
    budget_.step(static_cast<std::size_t>(slice.count));
    std::vector<Value> items;
    for (std::int64_t i = 0; i < slice.count; ++i) {
      items.push_back(sequence->items[static_cast<std::size_t>(slice.first + i * slice.step)]);
    }
    return make().sequence(sequence->shape, std::move(items));
  }
  const MarkedText* text = value.text();
  if (text == nullptr) return this->missing(fmt::format("{} cannot be sliced", value.type_with_article()));
  return make().text(sliced_text(*this, *text, begin, end, step));
}

}  // namespace mortise::jinja
