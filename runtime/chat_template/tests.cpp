// The tests of Jinja's `is`, as in `x is defined`.
#include <unordered_map>

#include "chat_template/runtime.hpp"
#include "chat_template/unicode.hpp"

namespace mortise::jinja {
namespace {

bool is_iterable(const Value& value) {
  return value.text() || value.object<Sequence>() || value.object<Dict>() || value.is_undefined() ||
         value.object<Loop>();
}

bool is_sequence(const Value& value) {
  const Sequence* sequence = value.object<Sequence>();
  return value.text() || value.object<Dict>() || value.is_undefined() || (sequence && sequence->is_indexable());
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_text(const Value& value) {
  return value.text() != nullptr;
}
bool never(const Value&) {
  return false;
}
template <bool wanted>
bool is_bool(const Value& value) {
  return value.get_if<bool>() != nullptr && value.truth() == wanted;
}
template <typename T>
bool is_a(const Value& value) {
  return value.get_if<T>() != nullptr;
}
template <typename Object>
bool is_object(const Value& value) {
  return value.object<Object>() != nullptr;
}

template <bool (*is_right)(const Value&)>
bool plain(Runtime&, const Value& value, Arguments& arguments) {
  const Parameters none(arguments, "this test", {});
  return is_right(value);
}

template <Operator op>
bool compares(Runtime& runtime, const Value& value, Arguments& arguments) {
  return runtime.compare(op, value, Parameters(arguments, "this test", {"other"}).at(0));
}

bool divisible(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "divisibleby", {"num"});
  return equal(runtime.binary(Operator::kModulo, value, parameters.at(0)), Value(std::int64_t{0}), runtime.budget());
}

template <bool odd>
bool parity(Runtime& runtime, const Value& value, Arguments&) {
  const Value rest = runtime.binary(Operator::kModulo, value, Value(std::int64_t{2}));
  return equal(rest, Value(std::int64_t{odd}), runtime.budget());
}

bool same_as(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Value& other = Parameters(arguments, "sameas", {"other"}).at(0);
  return value.is_same(other) || (value.text() && other.text() && equal(value, other, runtime.budget()));
}

template <Case wanted>
bool has_case(Runtime& runtime, const Value& value, Arguments&) {
  const MarkedText text = runtime.text_of(value);
  runtime.budget().read(16 * text.size());
  bool any = false;
  for (std::size_t at = 0; at < text.size();) any |= is_cased(next_character(text.bytes(), at));
  return any && with_case(text, wanted).bytes() == text.bytes();
}

bool is_filter_name(Runtime&, const Value& value, Arguments&) {
  return value.text() && find_filter(value.text()->bytes()) != nullptr;
}
bool is_test_name(Runtime&, const Value& value, Arguments&) {
  return value.text() && find_test(value.text()->bytes()) != nullptr;
}

const std::unordered_map<std::string_view, Test>& all_tests() {
  static const std::unordered_map<std::string_view, Test> kTests = {{"defined", plain<is_defined>},
                                                                    {"undefined", plain<is_undefined>},
                                                                    {"none", plain<is_none>},
                                                                    {"boolean", plain<is_a<bool>>},
                                                                    {"true", plain<is_bool<true>>},
                                                                    {"false", plain<is_bool<false>>},
                                                                    {"integer", plain<is_a<std::int64_t>>},
                                                                    {"float", plain<is_a<double>>},
                                                                    {"number", plain<is_number>},
                                                                    {"string", plain<is_text>},
                                                                    {"mapping", plain<is_object<Dict>>},
                                                                    {"iterable", plain<is_iterable>},
                                                                    {"sequence", plain<is_sequence>},
                                                                    {"callable", plain<is_object<Callable>>},
                                                                    {"escaped", plain<never>},
                                                                    {"odd", parity<true>},
                                                                    {"even", parity<false>},
                                                                    {"divisibleby", divisible},
                                                                    {"sameas", same_as},
                                                                    {"lower", has_case<Case::kLower>},
                                                                    {"upper", has_case<Case::kUpper>},
                                                                    {"filter", is_filter_name},
                                                                    {"test", is_test_name},
                                                                    {"in", compares<Operator::kIn>},
                                                                    {"eq", compares<Operator::kEqual>},
                                                                    {"==", compares<Operator::kEqual>},
                                                                    {"equalto", compares<Operator::kEqual>},
                                                                    {"ne", compares<Operator::kNotEqual>},
                                                                    {"!=", compares<Operator::kNotEqual>},
                                                                    {"lt", compares<Operator::kLess>},
                                                                    {"<", compares<Operator::kLess>},
                                                                    {"lessthan", compares<Operator::kLess>},
                                                                    {"le", compares<Operator::kLessEqual>},
                                                                    {"<=", compares<Operator::kLessEqual>},
                                                                    {"gt", compares<Operator::kGreater>},
                                                                    {">", compares<Operator::kGreater>},
                                                                    {"greaterthan", compares<Operator::kGreater>},
                                                                    {"ge", compares<Operator::kGreaterEqual>},
                                                                    {">=", compares<Operator::kGreaterEqual>}};
  return kTests;
}

}  // namespace

Test find_test(std::string_view name) {
  const auto at = all_tests().find(name);
  return at == all_tests().end() ? nullptr : at->second;
}

}  // namespace mortise::jinja
