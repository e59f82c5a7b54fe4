// The methods of dicts and lists; finds the methods of all types.
#include <algorithm>
#include <unordered_map>

#include "chat_template/runtime.hpp"
#include "chat_template/text_methods.hpp"

namespace mortise::jinja {
namespace {

using Table = std::unordered_map<std::string_view, Method>;

Value pair_of(Runtime& runtime, const std::pair<Value, Value>& entry) {
  return runtime.make().tuple({entry.first, entry.second});
}

template <typename Take>
Value view(Runtime& runtime, const Value& self, Arguments& arguments, std::string_view name, Take take) {
  const Parameters none(arguments, name, {});
  std::vector<Value> items;
  for (const auto& entry : self.object<Dict>()->entries) items.push_back(take(entry));
  return runtime.make().sequence(Sequence::Shape::kView, std::move(items), name);
}

Value items(Runtime& runtime, const Value& self, Arguments& arguments) {
  return view(runtime, self, arguments, "dict_items", [&](const auto& entry) { return pair_of(runtime, entry); });
}
Value keys(Runtime& runtime, const Value& self, Arguments& arguments) {
  return view(runtime, self, arguments, "dict_keys", [](const auto& entry) { return entry.first; });
}
Value values(Runtime& runtime, const Value& self, Arguments& arguments) {
  return view(runtime, self, arguments, "dict_values", [](const auto& entry) { return entry.second; });
}
Value get(Runtime&, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, "get", {"key", "default"});
  const Value* found = self.object<Dict>()->find(parameters.at(0));
  return found != nullptr ? *found : parameters.has(1) ? parameters.at(1) : Value();
}
Value copy(Runtime&, const Value& self, Arguments&) {
  return self;  // a copy is not needed, since dicts never change
}

Value index(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, "index", {"value"});
  const std::vector<Value>& all = self.object<Sequence>()->items;
  const auto at =
      std::ranges::find_if(all, [&](const Value& item) { return equal(item, parameters.at(0), runtime.budget()); });
  if (at == all.end()) fail("index(): the value is not in the list");
  return static_cast<std::int64_t>(at - all.begin());
}
Value count(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Parameters parameters(arguments, "count", {"value"});
  return static_cast<std::int64_t>(std::ranges::count_if(self.object<Sequence>()->items, [&](const Value& item) {
    return equal(item, parameters.at(0), runtime.budget());
  }));
}

const Table kDictMethods = {{"items", items}, {"keys", keys}, {"values", values}, {"get", get}, {"copy", copy}};
const Table kListMethods = {{"index", index}, {"count", count}, {"copy", copy}};

constexpr std::string_view kUnsupported[] = {"casefold",    "center",  "encode",    "expandtabs",   "format_map",
                                             "fromkeys",    "isascii", "isdecimal", "isidentifier", "isnumeric",
                                             "isprintable", "istitle", "maketrans", "swapcase",     "translate"};

}  // namespace

Method find_method(const Value& value, std::string_view name) {
  const auto find = [&](const Table& table) {
    const auto at = table.find(name);
    return at == table.end() ? nullptr : at->second;
  };
  if (value.text() != nullptr) return find_text_method(name);
  if (value.object<Dict>() != nullptr) return find(kDictMethods);
  const Sequence* list = value.object<Sequence>();
  if (list == nullptr || !list->is_indexable()) return nullptr;
  return name == "copy" && list->shape != Sequence::Shape::kList ? nullptr : find(kListMethods);
}

bool is_unsupported_method(std::string_view name) {
  return std::ranges::find(kUnsupported, name) != std::end(kUnsupported);
}

}  // namespace mortise::jinja
