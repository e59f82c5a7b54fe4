// The functions that every template has: range, namespace, dict, joiner, cycler, and transformers' raise_exception and
// strftime_now.
#include <locale.h>

#include <algorithm>

#include "chat_template/runtime.hpp"
#include "json/bounded_json.hpp"

namespace mortise::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as Jinja's sandbox has it

Value range(Runtime& runtime, Arguments& arguments) {
  const Parameters parameters(arguments, "range", {"start", "stop", "step"});
  const std::int64_t first = parameters.integer(0, 0);
  const bool one = !parameters.has(1);
  const std::int64_t begin = one ? 0 : first, end = one ? first : parameters.integer(1, 0),
                     step = parameters.integer(2, 1);
  if (step == 0) fail("range() has the step 0");
  std::vector<Value> items;
  std::int64_t at = begin;
  while (step > 0 ? at < end : at > end) {
    if (items.size() >= kMaxRange) fail("range() of more than {} numbers", kMaxRange);
    runtime.budget().step();
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return runtime.make().sequence(Sequence::Shape::kRange, std::move(items));
}

Value dict(Runtime& runtime, Arguments& arguments) {
  Dict::Entries entries;
  for (const Value& from : arguments.positional) {
    if (const Dict* other = from.object<Dict>()) {
      entries.insert(entries.end(), other->entries.begin(), other->entries.end());
      continue;
    }
    for (const Value& pair : runtime.items_of(from)) {
      std::vector<Value> both = runtime.items_of(pair);
      if (both.size() != 2) fail("dict() needs named values, a dict, or a list of pairs");
      entries.emplace_back(std::move(both[0]), std::move(both[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(runtime.make().text(name), value);
  return runtime.make().dict(std::move(entries));
}

Value make_namespace(Runtime& runtime, Arguments& arguments) {
  return runtime.new_namespace(arguments);
}

// Returns a function whose first call gives "", and each later call the separator.
Value joiner(Runtime& runtime, Arguments& arguments) {
  const Parameters parameters(arguments, "joiner", {"sep"});
  const Value separator = parameters.has(0) ? parameters.at(0) : runtime.make().text(", ");
  return runtime.make().callable(
      "joiner",
      [separator, used = false](Runtime& caller, Arguments&) mutable {
        return std::exchange(used, true) ? separator : caller.make().text("");
      },
      separator);
}

Value cycler(Runtime& runtime, Arguments& arguments) {
  if (arguments.positional.empty()) fail("cycler() needs values to cycle through");
  const Value space = runtime.new_namespace({});
  const Value items = runtime.make().list(arguments.positional);
  const auto count = std::make_shared<std::size_t>(0);
  const auto current = [items, count] { return items.object<Sequence>()->items[*count]; };
  Namespace& cycle = *space.object<Namespace>();
  cycle.set("current", current());
  // By address, because the namespace outlives its functions.
  cycle.set("next", runtime.make().callable(
                        "next",
                        [items, count, current, &cycle](Runtime&, Arguments&) {
                          Value value = current();
                          *count = (*count + 1) % items.object<Sequence>()->items.size();
                          cycle.set("current", current());
                          return value;
                        },
                        items));
  cycle.set("reset", runtime.make().callable(
                         "reset",
                         [count, current, &cycle](Runtime&, Arguments&) -> Value {
                           *count = 0;
                           cycle.set("current", current());
                           return None{};
                         },
                         items));
  return space;
}

Value raise_exception(Runtime& runtime, Arguments& arguments) {
  const Parameters parameters(arguments, "raise_exception", {"message"});
  fail("the template refuses these messages: {}", quote(runtime.text_of(parameters.at(0)).bytes()));
}

Value strftime_now(Runtime& runtime, Arguments& arguments) {
  const Parameters parameters(arguments, "strftime_now", {"format"});
  const std::string& format = parameters.text(0).bytes();
  if (format.size() > 200) fail("strftime_now() has a format of {} bytes; at most 200 are allowed", format.size());
  static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);  // month names are always English
  char text[4096];
  const std::tm now = runtime.now();
  const std::size_t size = strftime_l(text, sizeof text, format.c_str(), &now, kPlain);
  return runtime.make().text(std::string_view(text, size), parameters.text(0).source());
}

using Function = Value (*)(Runtime&, Arguments&);
constexpr std::pair<std::string_view, Function> kFunctions[] = {{"range", range},
                                                                {"dict", dict},
                                                                {"namespace", make_namespace},
                                                                {"joiner", joiner},
                                                                {"cycler", cycler},
                                                                {"raise_exception", raise_exception},
                                                                {"strftime_now", strftime_now}};

const std::pair<std::string_view, Function>* find(std::string_view name) {
  const auto at = std::ranges::find(kFunctions, name, &std::pair<std::string_view, Function>::first);
  return at == std::end(kFunctions) ? nullptr : at;
}

}  // namespace

bool is_global_function(std::string_view name) {
  return find(name) != nullptr;
}

std::optional<Value> global_function(Runtime& runtime, std::string_view name) {
  const auto* entry = find(name);
  if (entry == nullptr) return std::nullopt;
  return runtime.make().callable(std::string(name), entry->second);
}

}  // namespace mortise::jinja
