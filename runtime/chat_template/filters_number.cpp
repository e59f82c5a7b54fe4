// Filters that make numbers: int, float, round, abs, sum.
#include <charconv>
#include <cmath>

#include "chat_template/filters.hpp"

namespace mortise::jinja {
namespace {

// The digits of a text as Python's int() and float() accept it: with space around it, and "_" between digits.
std::string digits_of(const MarkedText& text) {
  std::string digits;
  const MarkedText stripped = strip(text, nullptr, Ends::kBoth);
  const std::string& bytes = stripped.bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool between = i > 0 && i + 1 < bytes.size() && std::isalnum(static_cast<unsigned char>(bytes[i - 1])) &&
                         std::isalnum(static_cast<unsigned char>(bytes[i + 1]));
    if (bytes[i] != '_' || !between) digits += bytes[i];
  }
  if (digits.starts_with('+') && digits.size() > 1 && digits[1] != '-') digits.erase(0, 1);
  return digits;
}

std::optional<double> read_float(const MarkedText& text) {
  const std::string digits = digits_of(text);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = std::strtod(digits.c_str(), nullptr);
  return value;
}

std::optional<std::int64_t> truncated(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::fabs(value) >= 0x1p63) fail_overflow();
  return static_cast<std::int64_t>(value);
}

Value to_int(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "int", {"default", "base"});
  const Value otherwise = parameters.has(0) ? parameters.at(0) : Value(std::int64_t{0});
  const MarkedText* text = value.text();
  if (text == nullptr) {
    if (const auto whole = value.integer()) return *whole;
    const auto number = value.is_number() ? truncated(*value.number()) : std::nullopt;
    return number ? Value(*number) : otherwise;
  }
  runtime.budget().read(text->size());
  std::string digits = digits_of(*text);
  const std::int64_t base = parameters.integer(1, 10);
  if (base < 2 || base > 36) fail("int: the base {} is not from 2 to 36", base);
  const std::size_t sign = digits.starts_with('-');
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "none";
  if (digits.compare(sign, 2, prefix) == 0) digits.erase(sign, 2);
  std::int64_t whole = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), whole, static_cast<int>(base));
  if (error == std::errc::result_out_of_range) fail_overflow();
  if (error == std::errc{} && end == digits.data() + digits.size()) return whole;
  const auto number = read_float(*text);
  const auto cut = number ? truncated(*number) : std::nullopt;
  return cut ? Value(*cut) : otherwise;
}

Value to_float(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "float", {"default"});
  if (const auto number = value.number()) return *number;
  const MarkedText* text = value.text();
  if (text != nullptr) runtime.budget().read(text->size());
  const auto number = text != nullptr ? read_float(*text) : std::nullopt;
  return number ? Value(*number) : parameters.has(0) ? parameters.at(0) : Value(0.0);
}

double rounded(double value, std::int64_t precision, const std::string& method) {
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(value * scale) / scale;
  if (method == "floor") return std::floor(value * scale) / scale;
  if (method != "common") fail("round: the method must be 'common', 'ceil' or 'floor'");
  if (precision < 0) return std::nearbyint(value * scale) / scale;
  return std::strtod(fmt::format("{:.{}f}", value, static_cast<int>(precision)).c_str(), nullptr);
}

// Rounds to a multiple of 10^digits, to the even one if two are equally near.
std::int64_t rounded(std::int64_t value, std::int64_t digits) {
  __int128 unit = 1;
  for (; digits > 0; --digits) unit *= 10;
  const __int128 rest = ((value % unit) + unit) % unit;
  const __int128 down = value - rest;
  const bool up = 2 * rest > unit || (2 * rest == unit && (down / unit) % 2 != 0);
  const __int128 result = up ? down + unit : down;
  if (result > INT64_MAX || result < INT64_MIN) fail_overflow();
  return static_cast<std::int64_t>(result);
}

Value round(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "round", {"precision", "method"});
  runtime.budget().step();
  if (!value.is_number()) fail("round needs a number, not {}", value.type_with_article());
  const std::int64_t precision = parameters.integer(0, 0);
  if (precision < -20 || precision > 20) fail("round: the precision {} is not from -20 to 20", precision);
  const std::string method = parameters.has(1) ? parameters.text(1).bytes() : "common";
  if (method == "common" && value.integer()) return rounded(*value.integer(), -precision);
  return rounded(*value.number(), precision, method);
}

Value absolute(Runtime&, const Value& value, Arguments&) {
  if (!value.is_number()) fail("abs needs a number, not {}", value.type_with_article());
  const auto whole = value.integer();
  if (!whole) return std::fabs(*value.number());
  if (*whole == INT64_MIN) fail_overflow();
  return *whole < 0 ? -*whole : *whole;
}

Value sum(Runtime& runtime, const Value& value, Arguments& arguments) {
  const Parameters parameters(arguments, "sum", {"attribute", "start"});
  Value total = parameters.has(1) ? parameters.at(1) : Value(std::int64_t{0});
  if (total.text() != nullptr) fail("sum cannot add texts; use join");
  for (const Value& item : runtime.items_of(value)) {
    total = runtime.binary(Operator::kAdd, total, attribute_path(runtime, item, parameters.find(0)));
  }
  return total;
}

constexpr NamedFilter kNumberFilters[] = {
    {"int", to_int}, {"float", to_float}, {"round", round}, {"abs", absolute}, {"sum", sum}};

}  // namespace

std::span<const NamedFilter> number_filters() {
  return kNumberFilters;
}

}  // namespace mortise::jinja
