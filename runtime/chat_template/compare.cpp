// Python's == and < of values.
#include <algorithm>

#include "chat_template/value.hpp"

namespace mortise::jinja {
namespace {

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  return std::equal(a.begin(), a.end(), b.begin(),
                    [&](const Value& x, const Value& y) { return x.is_same(y) || equal(x, y, budget); });
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other, budget);
  });
}

}  // namespace

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  const auto whole_a = a.integer(), whole_b = b.integer();
  if (whole_a && whole_b) return *whole_a == *whole_b;
  if (a.is_number() && b.is_number()) return *a.number() == *b.number();
  if (const MarkedText* text_a = a.text(), *text_b = b.text(); text_a && text_b) {
    if (text_a->size() != text_b->size()) return false;
    budget.read(text_a->size());
    return text_a->bytes() == text_b->bytes();
  }
  if (a.is_undefined() && b.is_undefined()) return true;
  const Sequence *list_a = a.object<Sequence>(), *list_b = b.object<Sequence>();
  if (list_a && list_b && list_a->is_indexable() && list_a->shape == list_b->shape) {
    return equal_items(list_a->items, list_b->items, budget);
  }
  const Dict *dict_a = a.object<Dict>(), *dict_b = b.object<Dict>();
  if (dict_a && dict_b) return equal_dicts(*dict_a, *dict_b, budget);
  return a.is_same(b);
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_undefined()) fail("{}", *a.get_if<Undefined>()->why);
  if (b.is_undefined()) fail("{}", *b.get_if<Undefined>()->why);
  const auto whole_a = a.integer(), whole_b = b.integer();
  if (whole_a && whole_b) return *whole_a < *whole_b;
  if (a.is_number() && b.is_number()) return *a.number() < *b.number();
  if (const MarkedText* text_a = a.text(), *text_b = b.text(); text_a && text_b) {
    budget.read(std::min(text_a->size(), text_b->size()));
    return text_a->bytes() < text_b->bytes();  // UTF-8 has the order of its code points
  }
  const Sequence *list_a = a.object<Sequence>(), *list_b = b.object<Sequence>();
  if (list_a && list_b && list_a->shape <= Sequence::Shape::kTuple && list_a->shape == list_b->shape) {
    for (std::size_t i = 0; i < std::min(list_a->items.size(), list_b->items.size()); ++i) {
      if (!equal(list_a->items[i], list_b->items[i], budget)) return less(list_a->items[i], list_b->items[i], budget);
    }
    return list_a->items.size() < list_b->items.size();
  }
  fail("{} and {} cannot be ordered", a.type_with_article(), b.type_with_article());
}

}  // namespace mortise::jinja
