// mortise/config_section.hpp: C++ helpers that read a checkpoint's config.json, which comes from strangers. An object
// is for one thread at a time. Functions without a class keep no state, so any thread may call them. Not part of the
// ABI: compiled into the plugin, like plugin.hpp. C++20. Since 0.5.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "mortise/plugin.hpp"

namespace mortise {

// Limits for values of a configuration. They are far above any real model, yet small enough that a product of two of
// them fits in 64 bits, and the size of a row in 31 bits.
inline constexpr int64_t kMaxSize = int64_t{1} << 22;
inline constexpr int64_t kMaxHeadDim = 4096;
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxPositions = int64_t{1} << 24;  // positions are exact in f32

// Throws UNIMPLEMENTED: the plugin cannot compute this checkpoint exactly.
[[noreturn]] inline void unsupported(const std::string& what);
// Throws INVALID_ARGUMENT: no model has this value.
[[noreturn]] inline void invalid_value(const std::string& key, const std::string& found, const std::string& expected);

// Parses the text as a JSON object. Throws INVALID_ARGUMENT if it is not one.
inline nlohmann::json parse_object(std::string_view text);

// Reads a JSON object and checks each value that it reads. A key that is absent or null has no value, as in
// transformers. Borrows the object. Messages put `prefix`, such as "rope_scaling.", before each key. A wrong value
// throws a Failure that names the key, the value and what was expected. Immutable: any thread may use it.
class ConfigSection {
 public:
  ConfigSection(const nlohmann::json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

  // Returns the key's value, or null if it has none.
  const nlohmann::json* find(const char* key) const;
  // These return the key's value, or `absent` if it has none. Without `absent`, the key must have a value.
  int64_t integer(const char* key, int64_t min, int64_t max) const;
  int64_t integer(const char* key, int64_t min, int64_t max, int64_t absent) const;
  double number(const char* key, double min, double max) const;
  double number(const char* key, double min, double max, double absent) const;
  bool boolean(const char* key, bool absent) const;
  std::string text(const char* key, const char* absent) const;
  int32_t size(const char* key, int64_t max) const { return static_cast<int32_t>(integer(key, 1, max)); }

  [[noreturn]] inline void fail(const char* key, const std::string& expected) const;

 private:
  const nlohmann::json& object_;
  std::string prefix_;
};

inline void unsupported(const std::string& what) {
  throw Failure(MORTISE_UNIMPLEMENTED, "config.json", what);
}

inline void invalid_value(const std::string& key, const std::string& found, const std::string& expected) {
  constexpr std::size_t kShown = 80;  // a hostile value may be megabytes
  const std::string value = found.size() > kShown ? found.substr(0, kShown) + "..." : found;
  throw Failure(MORTISE_INVALID_ARGUMENT, "config.json", key + " is " + value + "; expected " + expected);
}

inline nlohmann::json parse_object(std::string_view text) {
  nlohmann::json root = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) invalid_value("the file", "not a JSON object", "a model configuration");
  return root;
}

inline const nlohmann::json* ConfigSection::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

inline int64_t ConfigSection::integer(const char* key, int64_t min, int64_t max) const {
  const nlohmann::json* value = find(key);
  const std::string expected = "an integer from " + std::to_string(min) + " to " + std::to_string(max);
  if (value == nullptr) fail(key, expected);
  const bool whole = value->is_number_integer() &&
                     (!value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!whole || value->get<int64_t>() < min || value->get<int64_t>() > max) fail(key, expected);
  return value->get<int64_t>();
}

inline int64_t ConfigSection::integer(const char* key, int64_t min, int64_t max, int64_t absent) const {
  return find(key) == nullptr ? absent : integer(key, min, max);
}

inline double ConfigSection::number(const char* key, double min, double max) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr || !value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max)) {
    fail(key, "a number from " + nlohmann::json(min).dump() + " to " + nlohmann::json(max).dump());
  }
  return value->get<double>();
}

inline double ConfigSection::number(const char* key, double min, double max, double absent) const {
  return find(key) == nullptr ? absent : number(key, min, max);
}

inline bool ConfigSection::boolean(const char* key, bool absent) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) fail(key, "true or false");
  return value->get<bool>();
}

inline std::string ConfigSection::text(const char* key, const char* absent) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_string()) fail(key, "a string");
  return value->get<std::string>();
}

inline void ConfigSection::fail(const char* key, const std::string& expected) const {
  const nlohmann::json* value = find(key);
  invalid_value(prefix_ + key,
                value == nullptr ? "missing" : value->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
                expected);
}

}  // namespace mortise
