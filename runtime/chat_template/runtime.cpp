#include "chat_template/runtime.hpp"

#include <algorithm>
#include <cstring>

#include "chat_template/unicode.hpp"

namespace mortise::jinja {

Value Runtime::call(const Value& callee, Arguments& arguments) {
  if (const auto* missing = callee.get_if<Undefined>()) fail("{}", *missing->why);
  const Callable* function = callee.object<Callable>();
  if (function == nullptr) fail("{} cannot be called: it is not a function", callee.type_with_article());
  const Level level(budget_);
  return function->function(*this, arguments);
}

std::vector<Value> characters_of(const MarkedText& text, Runtime& runtime) {
  std::vector<Value> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_character(text.bytes(), at);
    characters.push_back(runtime.make().text(text.substr(begin, at)));
  }
  return characters;
}

std::vector<Value> Runtime::items_of(const Value& value) {
  if (value.is_undefined()) return {};
  if (Sequence* sequence = value.object<Sequence>()) {
    budget_.step(1 + sequence->items.size() / 4);
    if (sequence->has_length()) return sequence->items;
    const std::size_t begin = std::exchange(sequence->num_taken, sequence->items.size());
    return {sequence->items.begin() + static_cast<std::ptrdiff_t>(begin), sequence->items.end()};
  }
  if (const Dict* dict = value.object<Dict>()) {
    std::vector<Value> keys;
    budget_.step(1 + dict->entries.size() / 4);
    for (const auto& [key, item] : dict->entries) keys.push_back(key);
    return keys;
  }
  if (const MarkedText* text = value.text()) return characters_of(*text, *this);
  fail("a loop cannot go through {}", value.type_with_article());
}

std::size_t Runtime::length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const MarkedText* text = value.text()) {
    budget_.read(text->size());
    return count_characters(text->bytes());
  }
  const Sequence* sequence = value.object<Sequence>();
  if (sequence != nullptr && sequence->has_length()) return sequence->items.size();
  if (const Dict* dict = value.object<Dict>()) return dict->entries.size();
  fail("{} has no length", value.type_with_article());
}

bool Runtime::contains(const Value& whole, const Value& part) {
  if (const MarkedText* text = whole.text()) {
    const MarkedText* sought = part.text();
    if (sought == nullptr) fail("'in' looks for {} in a text; only a text can be in a text", part.type_with_article());
    budget_.read(text->size() + sought->size());
    // memmem takes linear time; std::string::find does not.
    return memmem(text->bytes().data(), text->size(), sought->bytes().data(), sought->size()) != nullptr;
  }
  if (const Dict* dict = whole.object<Dict>()) {
    budget_.step();
    return dict->find(part) != nullptr;
  }
  const std::vector<Value> items = items_of(whole);
  return std::ranges::any_of(items,
                             [&](const Value& item) { return item.is_same(part) || equal(item, part, budget_); });
}

bool Runtime::compare(Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return equal(a, b, budget_);
    case Operator::kNotEqual:
      return !equal(a, b, budget_);
    case Operator::kLess:
      return less(a, b, budget_);
    case Operator::kLessEqual:
      return less(a, b, budget_) || equal(a, b, budget_);
    case Operator::kGreater:
      return less(b, a, budget_);
    case Operator::kGreaterEqual:
      return less(b, a, budget_) || equal(a, b, budget_);
    case Operator::kIn:
      return contains(b, a);
    default:
      return !contains(b, a);
  }
}

Value Runtime::new_namespace(const Arguments& arguments) {
  auto space = std::make_shared<Namespace>(&budget_);
  namespaces_.push_back(space);
  for (const Value& from : arguments.positional) {
    const Dict* dict = from.object<Dict>();
    if (dict == nullptr) fail("namespace() needs named values or a dict, not {}", from.type_with_article());
    for (const auto& [key, value] : dict->entries) {
      budget_.take(sizeof(Value) + 64);
      budget_.step(space->attributes.size());
      space->set(to_text(key, budget_).bytes(), value);
    }
  }
  for (const auto& [name, value] : arguments.named) space->set(name, value);
  return space;
}

void Runtime::clear_namespaces() {
  for (const auto& space : namespaces_) space->attributes.clear();
}

Parameters::Parameters(const Arguments& arguments, std::string_view function,
                       std::initializer_list<std::string_view> names)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    fail("'{}' takes at most {} arguments, got {}", function, names.size(), arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::ranges::find(names_, name);
    if (place == names_.end()) fail("'{}' has no argument named '{}'", function, name);
    values_[static_cast<std::size_t>(place - names_.begin())] = &value;
  }
}

const Value& Parameters::at(std::size_t index) const {
  if (values_[index] == nullptr) fail("'{}' needs the argument '{}'", function_, names_[index]);
  return *values_[index];
}

std::int64_t Parameters::integer(std::size_t index, std::int64_t otherwise) const {
  if (!has(index)) return otherwise;
  const auto value = at(index).integer();
  if (!value) fail("'{}': '{}' is {}; expected an integer", function_, names_[index], at(index).type_with_article());
  return *value;
}

const MarkedText& Parameters::text(std::size_t index) const {
  const MarkedText* text = at(index).text();
  if (text == nullptr)
    fail("'{}': '{}' is {}; expected a text", function_, names_[index], at(index).type_with_article());
  return *text;
}

const MarkedText* Parameters::optional_text(std::size_t index) const {
  return !has(index) || at(index).is_none() ? nullptr : &text(index);
}

}  // namespace mortise::jinja
