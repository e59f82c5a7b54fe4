// runtime/tokenizer/file/config_node.hpp: a value of a JSON file together with its place in the file. Every mistake
// that is found when reading through it becomes an Error with the file, the key and the expected value:
//   /models/x/tokenizer.json: pre_tokenizer.behavior: expected a string, found 3
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::tokenizer {

// A view of a value in a document that must outlive it. Immutable. Invariant: where_ names the value's place in the
// file. Any thread may use it.
class ConfigNode {
 public:
  // `value` must outlive the node; `where` is the name of the file.
  ConfigNode(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool is_string() const { return value_->is_string(); }
  bool is_array() const { return value_->is_array(); }
  bool is_zero() const { return value_->is_number() && *value_ == 0; }

  // The member `key`; nullopt if it is missing or null.
  std::optional<ConfigNode> find(std::string_view key) const;
  // The member `key`. Throws an Error if it is missing or null.
  ConfigNode at(std::string_view key) const;
  // The elements of an array, the members of an object.
  std::vector<ConfigNode> elements() const;
  std::vector<std::pair<std::string, ConfigNode>> members() const;

  std::string as_string() const;
  std::string as_character() const;  // a string of one code point
  bool as_bool() const;
  std::uint32_t as_uint32() const;

  bool bool_or(std::string_view key, bool otherwise) const;

  // Throws Error: "<where>: expected <expected>, found <value>".
  [[noreturn]] void fail_expected(std::string_view expected) const;
  // Throws Error: "<where>: <stage> '<type>' is not supported; this version knows <known>".
  [[noreturn]] void fail_unsupported(std::string_view stage, std::string_view type, std::string_view known) const;

 private:
  ConfigNode child(const nlohmann::json& value, std::string_view name) const;

  const nlohmann::json* value_;
  std::string where_;
  bool is_root_ = true;
};

}  // namespace mortise::tokenizer
