// runtime/loader/options_schema.hpp: what options a component takes, read from its JSON Schema (draft 7). The one place
// that knows schemas: it checks what a script gives, fills in defaults, and tells `plugin info` what there is.
//
// A schema is an object schema whose properties each have a "title" and, unless required, a "default"; keys that it
// does not name are refused whatever its additionalProperties says. A string property of "format": "path" is a file
// name: the pipeline resolves a relative one against the script's folder. "$ref" is not allowed.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

struct Option {
  std::string name;
  std::string title;
  std::string expected;                // in words: "an integer from 1 to 256"
  std::string type;                    // "integer", "string", "string or null", ...
  nlohmann::json default_value;        // null when there is none
  std::vector<nlohmann::json> values;  // when they are few: of an enum, true and false
  bool required = false;
  bool is_path = false;
  bool has_pattern = false;  // it, or something in it
};

class OptionsSchema {
 public:
  // Throws an Error that says what is wrong with the schema itself.
  explicit OptionsSchema(std::string_view text);

  // In the order of the schema.
  const std::vector<Option>& options() const { return options_; }

  // `given` with the defaults of what it leaves out. Throws an Error that names the option, its value and what was
  // expected; `owner` ("attention 'paged'") says whose option it is. REQUIRES: `given` is an object.
  nlohmann::json complete(nlohmann::json given, std::string_view owner) const;

 private:
  struct Compiled;

  const Option* find(std::string_view name) const;

  std::vector<Option> options_;
  std::shared_ptr<const Compiled> compiled_;
};

// A value in an error message: JSON, shortened when long, with its type.
std::string show_value(const nlohmann::json& value);

}  // namespace mortise
