#include "chat_template/value.hpp"

#include <algorithm>
#include <cmath>

namespace mortise::jinja {
namespace {

std::size_t one_more(std::size_t depth) {
  if (depth >= kMaxValueDepth) {
    fail("lists and dicts nest deeper than {} levels", kMaxValueDepth);
  }
  return depth + 1;
}

template <typename Range, typename Depth>
std::size_t depth_of(const Range& range, Depth depth) {
  std::size_t most = 0;
  for (const auto& item : range) most = std::max(most, depth(item));
  return one_more(most);
}

constexpr std::size_t kPlaceBytes = 64;  // a node of a dict's `places`

// Bytes of the copy of a key in a dict's table.
std::size_t key_bytes(const Value& key) {
  if (const MarkedText* text = key.text()) return text->size();
  std::size_t sum = 0;
  if (const Sequence* tuple = key.object<Sequence>()) {
    for (const Value& item : tuple->items) sum += kPlaceBytes + (item.text() == nullptr ? 0 : item.text()->size());
  }
  return sum;
}

std::size_t table_bytes(const Dict::Entries& entries) {
  std::size_t sum = 0;
  for (const auto& [key, value] : entries) sum += sizeof(Dict::Entries::value_type) + kPlaceBytes + key_bytes(key);
  return sum;
}

}  // namespace

Value undefined(std::string why) {
  return Undefined{std::make_shared<const std::string>(std::move(why))};
}

std::optional<std::int64_t> Value::integer() const {
  if (const auto* value = get_if<std::int64_t>()) return *value;
  if (const auto* value = get_if<bool>()) return *value ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* value = get_if<double>()) return *value;
  if (const auto value = integer()) return static_cast<double>(*value);
  return std::nullopt;
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (const auto value = number()) return *value != 0;
  if (const MarkedText* value = text()) return !value->empty();
  if (const Sequence* value = object<Sequence>()) return !value->has_length() || !value->items.empty();
  if (const Dict* value = object<Dict>()) return !value->entries.empty();
  return true;
}

bool Value::is_same(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  return std::visit(
      [&](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        if constexpr (std::is_same_v<T, None>) {
          return true;
        } else if constexpr (std::is_same_v<T, Undefined>) {
          return mine.why == std::get<T>(other.data_).why;
        } else {
          return mine == std::get<T>(other.data_);
        }
      },
      data_);
}

const char* Value::type_name() const {
  static constexpr const char* kNames[] = {"NoneType", "Undefined", "bool",      "int",      "float",      "str",
                                           "list",     "dict",      "Namespace", "function", "LoopContext"};
  if (const Sequence* value = object<Sequence>()) {
    switch (value->shape) {
      case Sequence::Shape::kTuple:
        return "tuple";
      case Sequence::Shape::kRange:
        return "range";
      case Sequence::Shape::kList:
        break;
      case Sequence::Shape::kView:
      case Sequence::Shape::kGenerator:
        return value->name.data();  // name of a literal
    }
  }
  return kNames[data_.index()];
}

std::string Value::type_with_article() const {
  const std::string_view name = type_name();
  const bool has_vowel = std::string_view("aeiouAEIOU").find(name.front()) != std::string_view::npos;
  return (has_vowel ? "an " : "a ") + std::string(name);
}

std::size_t Value::depth() const {
  if (const Sequence* value = object<Sequence>()) return value->depth;
  if (const Dict* value = object<Dict>()) return value->depth;
  if (const Callable* value = object<Callable>()) return value->depth;
  if (const Loop* value = object<Loop>()) return value->depth;
  return 0;
}

std::size_t depth_around(const Value& value) {
  return one_more(value.depth());
}

Loop::Loop(Budget* budget, std::vector<Value> items)
    : Counted(budget, sizeof(Loop) + items.size() * sizeof(Value)),
      items(std::move(items)),
      depth(depth_of(this->items, [](const Value& item) { return item.depth(); })) {}

Sequence::Sequence(Budget* budget, Shape shape, std::vector<Value> items, std::string_view name)
    : Counted(budget, sizeof(Sequence) + items.size() * sizeof(Value)),
      shape(shape),
      name(name),
      items(std::move(items)),
      depth(depth_of(this->items, [](const Value& item) { return item.depth(); })) {}

Dict::Dict(Budget* budget, Entries pairs) : Counted(budget, sizeof(Dict) + table_bytes(pairs)) {
  depth = depth_of(pairs, [](const auto& entry) { return std::max(entry.first.depth(), entry.second.depth()); });
  for (auto& [key, value] : pairs) {
    const auto [place, is_new] = places.emplace(hash_key(key), entries.size());
    if (is_new) {
      entries.emplace_back(std::move(key), std::move(value));
    } else {
      entries[place->second].second = std::move(value);
    }
  }
}

const Value* Dict::find(const Value& key) const {
  read(key_bytes(key));
  const auto place = places.find(hash_key(key));
  return place == places.end() ? nullptr : &entries[place->second].second;
}

const Value* Dict::find(std::string_view key) const {
  read(key.size());
  std::string hashed = "s";
  hashed += key;
  const auto place = places.find(hashed);
  return place == places.end() ? nullptr : &entries[place->second].second;
}

Value* Namespace::find(std::string_view name) {
  read(2 * attributes.size());
  const auto at = std::ranges::find(attributes, name, &std::pair<std::string, Value>::first);
  return at == attributes.end() ? nullptr : &at->second;
}

void Namespace::set(std::string_view name, Value value) {
  if (Value* there = find(name)) {
    *there = std::move(value);
  } else {
    grow(sizeof attributes[0] + name.size());
    attributes.emplace_back(name, std::move(value));
  }
}

std::string hash_key(const Value& key) {
  if (const MarkedText* text = key.text()) return "s" + text->bytes();
  if (key.is_none()) return "n";
  if (key.is_undefined()) return "u";
  if (const auto value = key.integer()) return "i" + std::to_string(*value);
  if (const auto* value = key.get_if<double>()) {
    // 1.0 and 1 are the same key.
    const bool is_whole = *value == std::floor(*value) && std::fabs(*value) < 0x1p62;
    return is_whole ? "i" + std::to_string(static_cast<std::int64_t>(*value)) : "f" + float_text(*value);
  }
  const Sequence* tuple = key.object<Sequence>();
  if (tuple == nullptr || tuple->shape != Sequence::Shape::kTuple) {
    fail("{} cannot be the key of a dict", key.type_with_article());
  }
  std::string text = "(";
  for (const Value& item : tuple->items) {
    // Nested tuples are refused, because one tuple may occur many times in another.
    if (item.object<Sequence>() != nullptr)
      fail("a tuple that contains {} cannot be the key of a dict", item.type_with_article());
    const std::string part = hash_key(item);
    text += std::to_string(part.size()) + ":" + part;
  }
  return text;
}

}  // namespace mortise::jinja
