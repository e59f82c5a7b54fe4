#include "tokenizer/file/config_node.hpp"

#include <limits>

#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

constexpr std::size_t kShownCharacters = 60;  // characters shown of a wrong value, enough to find it in the file

std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShownCharacters) text.replace(kShownCharacters, std::string::npos, "...");
  return text;
}

}  // namespace

ConfigNode ConfigNode::child(const nlohmann::json& value, std::string_view name) const {
  std::string where = where_;
  if (is_root_) {
    where += ": ";
  } else if (!name.starts_with('[')) {
    where += '.';
  }
  ConfigNode node(value, where.append(name));
  node.is_root_ = false;
  return node;
}

std::optional<ConfigNode> ConfigNode::find(std::string_view key) const {
  if (!value_->is_object()) fail_expected("an object");
  const auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return child(*it, key);
}

ConfigNode ConfigNode::at(std::string_view key) const {
  if (auto node = find(key)) return *std::move(node);
  static const nlohmann::json kNothing;
  child(kNothing, key).fail_expected("a value");
}

std::vector<ConfigNode> ConfigNode::elements() const {
  if (!value_->is_array()) fail_expected("an array");
  std::vector<ConfigNode> nodes;
  for (std::size_t i = 0; i < value_->size(); ++i) nodes.push_back(child((*value_)[i], fmt::format("[{}]", i)));
  return nodes;
}

std::vector<std::pair<std::string, ConfigNode>> ConfigNode::members() const {
  if (!value_->is_object()) fail_expected("an object");
  std::vector<std::pair<std::string, ConfigNode>> nodes;
  for (auto it = value_->begin(); it != value_->end(); ++it) nodes.emplace_back(it.key(), child(*it, it.key()));
  return nodes;
}

std::string ConfigNode::as_string() const {
  if (!value_->is_string()) fail_expected("a string");
  return value_->get<std::string>();
}

std::string ConfigNode::as_character() const {
  std::string text = as_string();
  if (text.empty() || character_length(text[0]) != text.size()) fail_expected("one character");
  return text;
}

bool ConfigNode::as_bool() const {
  if (!value_->is_boolean()) fail_expected("true or false");
  return value_->get<bool>();
}

std::uint32_t ConfigNode::as_uint32() const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
    fail_expected("a whole number from 0 to 4294967295");
  }
  return value_->get<std::uint32_t>();
}

bool ConfigNode::bool_or(std::string_view key, bool otherwise) const {
  const auto node = find(key);
  return node ? node->as_bool() : otherwise;
}

void ConfigNode::fail_expected(std::string_view expected) const {
  fail("{}: expected {}, found {}", where_, expected, value_->is_null() ? "nothing" : shown(*value_));
}

void ConfigNode::fail_unsupported(std::string_view stage, std::string_view type, std::string_view known) const {
  fail("{}: {} '{}' is not supported; this version knows {}", where_, stage, type, known);
}

}  // namespace mortise::tokenizer
