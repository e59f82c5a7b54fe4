#include "loader/options_schema.hpp"

#include <algorithm>
#include <map>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "loader/nearest.hpp"

namespace mortise {
namespace {

using valijson::adapters::NlohmannJsonAdapter;
using Json = nlohmann::json;

// valijson matches patterns with std::regex, which recurses for each character: 20,000 of them overflow the stack.
constexpr std::size_t kMaxMatchedBytes = 2048;

std::shared_ptr<const valijson::Schema> compile(const Json& schema) {
  auto compiled = std::make_shared<valijson::Schema>();
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  parser.populateSchema(NlohmannJsonAdapter(schema), *compiled);
  return compiled;
}

bool accepts(const valijson::Schema& schema, const Json& value) {
  valijson::Validator validator;
  return validator.validate(schema, NlohmannJsonAdapter(value), nullptr);
}

bool uses_ref(const Json& value) {
  if (value.is_object() && value.contains("$ref")) return true;
  if (!value.is_structured()) return false;
  return std::any_of(value.begin(), value.end(), [](const Json& child) { return uses_ref(child); });
}

// The schemas of which a value must match one; empty if there are none.
std::vector<Json> alternatives(const Json& property) {
  for (const char* key : {"oneOf", "anyOf"}) {
    const auto found = property.find(key);
    if (found != property.end() && found->is_array()) return found->get<std::vector<Json>>();
  }
  return {};
}

// Returns words(alternative) of all alternatives, joined by `separator`. Equal texts appear once.
template <typename Words>
std::string words_of_alternatives(const std::vector<Json>& alternatives, const char* separator, const Words& words) {
  std::vector<std::string> all;
  for (const Json& alternative : alternatives) {
    std::string text = words(alternative);
    if (std::ranges::find(all, text) == all.end()) all.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(all, separator));
}

std::string type_words(const Json& property) {
  const auto type = property.find("type");
  if (const auto several = alternatives(property); type == property.end() && !several.empty()) {
    return words_of_alternatives(several, " or ", type_words);
  }
  if (type == property.end()) return property.contains("enum") ? "one of a list" : "anything";
  if (type->is_string()) return type->get<std::string>();
  std::string words;
  for (const auto& one : *type) words += (words.empty() ? "" : " or ") + one.get<std::string>();
  return words;
}

std::string with_article(const std::string& noun) {
  const bool vowel = !noun.empty() && std::string_view("aeiou").find(noun[0]) != std::string_view::npos;
  return (vowel ? "an " : "a ") + noun;
}

// "an integer from 1 to 256", "one of "auto", "bf16"".
std::string expected_words(const Json& property) {
  if (const auto values = property.find("enum"); values != property.end()) {
    std::string words = "one of";
    for (const auto& value : *values) words += (words.size() > 6 ? ", " : " ") + value.dump();
    return words;
  }
  if (const auto several = alternatives(property); !several.empty()) {
    return words_of_alternatives(several, ", or ", expected_words);
  }
  std::string words = type_words(property);
  if (words != "anything") words = with_article(words);
  const auto low = property.find("minimum");
  const auto high = property.find("maximum");
  if (low != property.end() && high != property.end()) {
    words += fmt::format(" from {} to {}", low->dump(), high->dump());
  } else if (low != property.end()) {
    words += fmt::format(" of at least {}", low->dump());
  } else if (high != property.end()) {
    words += fmt::format(" of at most {}", high->dump());
  }
  static constexpr std::pair<const char*, const char*> kLimits[] = {{"exclusiveMinimum", "greater than"},
                                                                    {"exclusiveMaximum", "less than"},
                                                                    {"multipleOf", "a multiple of"},
                                                                    {"minLength", "with a length of at least"},
                                                                    {"maxLength", "with a length of at most"},
                                                                    {"minItems", "with at least this many items:"},
                                                                    {"pattern", "matching"}};
  for (const auto& [key, text] : kLimits) {
    if (property.contains(key)) words += fmt::format(", {} {}", text, property.at(key).dump());
  }
  if (property.value("uniqueItems", Json()) == true) words += ", each only once";
  return words;
}

Json parse_schema(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const Error& error) {
    fail("cannot be read: {}", error.what());
  }
}

std::vector<Json> few_values(const Json& property) {
  if (property.contains("enum")) return property["enum"].get<std::vector<Json>>();
  if (property.value("type", Json()) == "boolean") return {true, false};
  return {};
}

void check_shape(const Json& schema) {
  if (!schema.is_object()) fail("is not a JSON object");
  if (schema.value("type", Json()) != "object") fail("does not have \"type\": \"object\"");
  if (uses_ref(schema)) fail("uses \"$ref\", which mortise does not support");
  if (schema.contains("properties") && !schema["properties"].is_object())
    fail("has \"properties\" that are not an object");
  const Json required = schema.value("required", Json::array());
  if (!required.is_array()) fail("has a \"required\" that is not an array");
  for (const auto& name : required) {
    if (!name.is_string() || !schema.value("properties", Json::object()).contains(name.get<std::string>())) {
      fail("requires {}, which is not among its properties", name.dump());
    }
  }
}

}  // namespace

struct OptionsSchema::Compiled {
  std::shared_ptr<const valijson::Schema> whole;
  std::map<std::string, std::shared_ptr<const valijson::Schema>, std::less<>> properties;
};

OptionsSchema::OptionsSchema(std::string_view text) try {
  const Json schema = parse_schema(text);
  const auto ordered = nlohmann::ordered_json::parse(text);  // keeps the schema's order of options
  check_shape(schema);
  const Json required = schema.value("required", Json::array());
  auto compiled = std::make_shared<Compiled>();
  const auto properties = ordered.value("properties", nlohmann::ordered_json::object());
  for (const auto& [name, unused] : properties.items()) {
    const Json& property = schema["properties"][name];
    if (!property.is_object()) fail("property '{}' is not an object", name);
    Option option;
    option.name = name;
    option.required = std::find(required.begin(), required.end(), name) != required.end();
    if (!property.contains("title") || !property["title"].is_string()) fail("property '{}' has no title", name);
    option.title = property["title"];
    if (!option.required && !property.contains("default")) fail("property '{}' is optional but has no default", name);
    option.default_value = property.value("default", Json());
    option.type = type_words(property);
    option.expected = expected_words(property);
    option.values = few_values(property);
    option.is_path = property.value("format", "") == "path";
    option.has_pattern = property.dump().find("\"pattern\"") != std::string::npos;
    auto& validator = compiled->properties[name] = compile(property);
    if (property.contains("default") && !accepts(*validator, property["default"])) {
      fail("property '{}' has the default {}, which the schema itself refuses", name, property["default"].dump());
    }
    options_.push_back(std::move(option));
  }
  compiled->whole = compile(schema);  // last, because the messages of the checks above are clearer
  compiled_ = std::move(compiled);
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {  // exceptions of nlohmann and valijson
  fail("cannot be read: {}", error.what());
}

const Option* OptionsSchema::find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

nlohmann::json OptionsSchema::complete(nlohmann::json given, std::string_view owner) const {
  std::vector<std::string> names;
  for (const auto& option : options_) names.push_back(option.name);
  for (const auto& [name, value] : given.items()) {
    if (find(name) != nullptr) continue;
    fail("unknown option '{}' of {}{}{} {}: {}", name, owner, did_you_mean(name, names),
         nearest_name(name, names) ? " it has" : "; it has", names.size() == 1 ? "one option" : "the options",
         join_names(names));
  }
  for (const auto& option : options_) {
    const auto value = given.find(option.name);
    if (value == given.end()) {
      if (option.required) fail("{} needs the option '{}' ({}): {}", owner, option.name, option.title, option.expected);
      given[option.name] = option.default_value;
    } else if (option.has_pattern && value->dump().size() > kMaxMatchedBytes) {
      fail("option '{}' of {} is {}; it has a pattern, so at most {} bytes are allowed", option.name, owner,
           show_value(*value), kMaxMatchedBytes);
    } else if (!accepts(*compiled_->properties.at(option.name), *value)) {
      fail("option '{}' of {} is {}; expected {} ({})", option.name, owner, show_value(*value), option.expected,
           option.title);
    }
  }
  // A rule between options (anyOf, dependencies, ...): only the schema's own words can be shown.
  valijson::ValidationResults results;
  valijson::Validator validator;
  if (!validator.validate(*compiled_->whole, NlohmannJsonAdapter(given), &results)) {
    valijson::ValidationResults::Error first;
    results.popError(first);
    fail("the options of {} do not fit together: {} (options: {})", owner, first.description, show_value(given));
  }
  return given;
}

std::string show_value(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 80;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  if (value.is_null()) return "null";
  return fmt::format("{} (a {})", text,
                     value.is_number_integer() ? "whole number"
                     : value.is_object()       ? "table with names"
                     : value.is_array()        ? "list"
                                               : value.type_name());
}

}  // namespace mortise
