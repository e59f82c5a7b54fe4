// Filters of lists and dicts as a whole.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "chat_template/filters.hpp"

namespace mortise::jinja {
namespace {

Value length(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters none(arguments, "length", {});
  return static_cast<std::int64_t>(runtime.length(value));
}

Value list(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters none(arguments, "list", {});
  return runtime.make().list(runtime.items_of(value));
}

Value items(Runtime& runtime, const Value& value, Arguments&) {
  const Dict* dict = value.object<Dict>();
  if (dict == nullptr && !value.is_undefined()) fail("items needs a dict, not {}", value.type_with_article());
  std::vector<Value> pairs;
  if (dict != nullptr) {
    for (const auto& [key, item] : dict->entries) pairs.push_back(runtime.make().tuple({key, item}));
  }
  return runtime.make().generator(std::move(pairs));
}

Value first(Runtime& runtime, const Value& value, Arguments&) {
  if (Sequence* sequence = value.object<Sequence>(); sequence != nullptr && !sequence->has_length()) {
    if (sequence->num_taken < sequence->items.size()) return sequence->items[sequence->num_taken++];
    return undefined("the first item of an empty list is undefined");
  }
  const std::vector<Value> all = runtime.items_of(value);
  return all.empty() ? undefined("the first item of an empty list is undefined") : all.front();
}

Value last(Runtime& runtime, const Value& value, Arguments&) {
  const Sequence* sequence = value.object<Sequence>();
  if (sequence != nullptr && !sequence->has_length())
    fail("last does not work on a generator; make it a list first: | list");
  const std::vector<Value> all = runtime.items_of(value);
  return all.empty() ? undefined("the last item of an empty list is undefined") : all.back();
}

Value reverse(Runtime& runtime, const Value& value, Arguments&) {
  const Sequence* sequence = value.object<Sequence>();
  if (sequence != nullptr && !sequence->has_length())
    fail("reverse does not work on a generator; make it a list first: | list");
  std::vector<Value> all = runtime.items_of(value);
  std::ranges::reverse(all);
  if (value.text() == nullptr) return runtime.make().generator(std::move(all));
  return runtime.make().text(join(all, {}, runtime));
}

Value join_filter(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "join", {"d", "attribute"});
  std::vector<Value> all = runtime.items_of(value);
  for (Value& item : all) item = attribute_path(runtime, item, parameters.find(1));
  return runtime.make().text(join(all, parameters.has(0) ? runtime.text_of(parameters.at(0)) : MarkedText(), runtime));
}

// Sorts by keys that were computed once.
std::vector<Value> sorted(Runtime& runtime, std::vector<Value> all, const std::vector<Value>& keys, bool down) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return down ? less(keys[b], keys[a], runtime.budget()) : less(keys[a], keys[b], runtime.budget());
  });
  std::vector<Value> result;
  for (const std::size_t i : order) result.push_back(all[i]);
  return result;
}

// The sort key of an item: an attribute, in lower case unless `case_sensitive`.
Value key_of(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
  const Value value = attribute_path(runtime, item, attribute);
  return case_sensitive ? value : without_case(runtime, value);
}

Value sort(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> all = runtime.items_of(value), keys;
  for (const Value& item : all) keys.push_back(key_of(runtime, item, parameters.find(2), parameters.truth(1, false)));
  return runtime.make().list(sorted(runtime, std::move(all), keys, parameters.truth(0, false)));
}

Value dictsort(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  const Dict* dict = value.object<Dict>();
  if (dict == nullptr) fail("dictsort needs a dict, not {}", value.type_with_article());
  const std::string by = parameters.has(1) ? parameters.text(1).bytes() : "key";
  if (by != "key" && by != "value") fail("dictsort: 'by' must be 'key' or 'value'");
  std::vector<Value> all, keys;
  for (const auto& [key, item] : dict->entries) {
    all.push_back(runtime.make().tuple({key, item}));
    keys.push_back(key_of(runtime, by == "key" ? key : item, nullptr, parameters.truth(0, false)));
  }
  return runtime.make().list(sorted(runtime, std::move(all), keys, parameters.truth(2, false)));
}

template <bool largest>
Value extreme(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "min or max", {"case_sensitive", "attribute"});
  const std::vector<Value> all = runtime.items_of(value);
  if (all.empty()) return undefined("the least or greatest item of an empty list is undefined");
  Value best = all.front(), best_key = key_of(runtime, best, parameters.find(1), parameters.truth(0, false));
  for (const Value& item : all) {
    const Value key = key_of(runtime, item, parameters.find(1), parameters.truth(0, false));
    const bool better = largest ? less(best_key, key, runtime.budget()) : less(key, best_key, runtime.budget());
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return best;
}

Value unique(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "unique", {"case_sensitive", "attribute"});
  std::unordered_set<std::string> seen;
  std::vector<Value> kept;
  Growth growth(runtime.budget());
  std::size_t num_bytes = 0;
  for (const Value& item : runtime.items_of(value)) {
    std::string key = hash_key(key_of(runtime, item, parameters.find(1), parameters.truth(0, false)));
    growth.reach(num_bytes += key.size() + 64);
    if (seen.insert(std::move(key)).second) kept.push_back(item);
  }
  return runtime.make().generator(std::move(kept));
}

Value batch(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "batch", {"linecount", "fill_with"});
  parameters.at(0);
  const std::int64_t size = parameters.integer(0, 1);
  if (size < 1 || size > 100'000) fail("batch: the number {} of items is not from 1 to 100000", size);
  std::vector<Value> rows, row;
  for (const Value& item : runtime.items_of(value)) {
    row.push_back(item);
    if (static_cast<std::int64_t>(row.size()) == size) rows.push_back(runtime.make().list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    if (parameters.has(1) && !parameters.at(1).is_none()) row.resize(static_cast<std::size_t>(size), parameters.at(1));
    rows.push_back(runtime.make().list(std::move(row)));
  }
  return runtime.make().generator(std::move(rows));
}

constexpr NamedFilter kListFilters[] = {
    {"length", length},      {"count", length},      {"list", list},        {"items", items}, {"first", first},
    {"last", last},          {"reverse", reverse},   {"join", join_filter}, {"sort", sort},   {"dictsort", dictsort},
    {"min", extreme<false>}, {"max", extreme<true>}, {"unique", unique},    {"batch", batch}};

}  // namespace

std::span<const NamedFilter> list_filters() {
  return kListFilters;
}

}  // namespace mortise::jinja
