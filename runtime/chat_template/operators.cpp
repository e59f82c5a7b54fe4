// + - * / // % ** of values, as in Python, except that an integer of more than 64 bits is an error.
#include <cmath>

#include "chat_template/runtime.hpp"

namespace mortise::jinja {
namespace {

const char* sign_of(Operator op) {
  static constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSigns[static_cast<std::size_t>(op)];
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1 && a == INT64_MIN) fail_overflow();
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;  // INT64_MIN % -1 overflows
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  std::int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? std::int64_t{1} : base;
  for (; exponent > 0; --exponent) {
    if (exponent > 64 && base == -1) exponent = 2 + exponent % 2;
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return result;
}

Value whole(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::kFloorDivide:
      return floor_divide(a, b);
    case Operator::kModulo:
      return modulo(a, b);
    case Operator::kPower:
      return power(a, b);
    default:
      return static_cast<double>(a) / static_cast<double>(b);
  }
}

// As in CPython: the quotient a / b may have been rounded up to the next whole number.
double floor_divide(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

double modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value real(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kFloorDivide:
      return floor_divide(a, b);
    case Operator::kModulo:
      return modulo(a, b);
    case Operator::kPower:
      return std::pow(a, b);
    default:
      return a / b;
  }
}

// The memory of one repetition. A text with one run keeps one run.
std::size_t repeated_memory(const MarkedText& text) {
  return text.runs().size() > 1 ? text.memory() : text.size();
}

Value repeated(Runtime& runtime, const Value& value, std::int64_t times) {
  const Sequence* list = value.object<Sequence>();
  const std::size_t size = list != nullptr ? list->items.size() * sizeof(Value) : repeated_memory(*value.text());
  // Pays before the text is made.
  const Counted room(
      &runtime.budget(),
      times <= 0 || size == 0 ? 0 : static_cast<std::size_t>(std::min<std::int64_t>(times, INT32_MAX)) * size);
  if (list != nullptr) {
    std::vector<Value> items;
    for (; times > 0 && size > 0; --times) items.insert(items.end(), list->items.begin(), list->items.end());
    return runtime.make().sequence(list->shape, std::move(items));
  }
  if (times <= 0 || size == 0) return runtime.make().text("");
  MarkedText text = *value.text();
  std::int64_t done = 1;
  // Doubling, because 200 million appends of one byte take seconds.
  for (; done <= times / 2; done *= 2) text.append(text);
  text.append(text, 0, static_cast<std::size_t>(times - done) * value.text()->size());
  return runtime.make().text(std::move(text));
}

MarkedText escaped(const Value& value) {
  const MarkedText& text = *value.text();
  if (value.object<String>()->is_markup) return text;
  MarkedText out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text.bytes()[at];
    const std::string_view name = c == '&'    ? "&amp;"
                                  : c == '<'  ? "&lt;"
                                  : c == '>'  ? "&gt;"
                                  : c == '"'  ? "&#34;"
                                  : c == '\'' ? "&#39;"
                                              : "";
    name.empty() ? out.append(text, at, at + 1) : out.append(name, text.source_at(at));
  }
  return out;
}

// Concatenates texts. If one of them is markup, the other is escaped.
Value concatenated(Runtime& runtime, const Value& a, const Value& b) {
  const bool is_markup = a.object<String>()->is_markup || b.object<String>()->is_markup;
  if (is_markup) runtime.budget().read(16 * (a.text()->size() + b.text()->size()));
  MarkedText sum = is_markup ? escaped(a) : *a.text();
  sum.append(is_markup ? escaped(b) : *b.text());
  return is_markup ? runtime.make().markup(std::move(sum)) : runtime.make().text(std::move(sum));
}

bool is_repeatable(const Value& value) {
  const Sequence* list = value.object<Sequence>();
  return value.text() != nullptr || (list != nullptr && list->shape <= Sequence::Shape::kTuple);
}

}  // namespace

void fail_overflow() {
  fail("the result does not fit in a 64-bit integer");
}

Value Runtime::binary(Operator op, const Value& a, const Value& b) {
  budget_.step();
  if (const auto* missing = a.get_if<Undefined>()) fail("{}", *missing->why);
  if (op == Operator::kModulo && a.text() != nullptr) {
    const Sequence* tuple = b.object<Sequence>();
    const bool several = tuple != nullptr && tuple->shape == Sequence::Shape::kTuple;
    return make().text(
        format_percent(*a.text(), several ? tuple->items : std::vector<Value>{b}, b.object<Dict>(), *this));
  }
  if (const auto* missing = b.get_if<Undefined>()) fail("{}", *missing->why);
  if (op == Operator::kAdd) {
    if (a.text() != nullptr && b.text() != nullptr) return concatenated(*this, a, b);
    const Sequence *list_a = a.object<Sequence>(), *list_b = b.object<Sequence>();
    if (list_a && list_b && list_a->shape == list_b->shape && list_a->shape <= Sequence::Shape::kTuple) {
      std::vector<Value> items = list_a->items;
      items.insert(items.end(), list_b->items.begin(), list_b->items.end());
      return make().sequence(list_a->shape, std::move(items));
    }
  }
  if (op == Operator::kMultiply && is_repeatable(a) && b.integer()) return repeated(*this, a, *b.integer());
  if (op == Operator::kMultiply && is_repeatable(b) && a.integer()) return repeated(*this, b, *a.integer());
  if (!a.is_number() || !b.is_number()) {
    fail("{} {} {} is not possible", a.type_with_article(), sign_of(op), b.type_with_article());
  }
  const bool divides = op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  const bool zero_power = op == Operator::kPower && *a.number() == 0 && *b.number() < 0;
  if ((divides && *b.number() == 0) || zero_power) fail("a division by zero");
  if (a.integer() && b.integer()) return whole(op, *a.integer(), *b.integer());
  const Value result = real(op, *a.number(), *b.number());
  if (op == Operator::kPower && std::isnan(*result.number()) && !std::isnan(*a.number()) && !std::isnan(*b.number())) {
    fail("a root of a negative number is not supported");
  }
  return result;
}

}  // namespace mortise::jinja
