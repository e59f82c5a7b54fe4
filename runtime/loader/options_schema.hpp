// runtime/loader/options_schema.hpp: the options of a component, defined by its JSON Schema (draft 7). The only place
// that knows schemas: it checks options of a script, fills in defaults, and lists the options for `plugin info`.
//
// A schema describes an object. Each property has a "title" and, unless it is required, a "default". Other keys are
// refused, whatever additionalProperties says. A string property with "format": "path" is a file name; the pipeline
// resolves a relative one against the script's folder. "$ref" is not allowed.
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
  nlohmann::json default_value;        // null if there is none
  std::vector<nlohmann::json> values;  // all values if there are few: of an enum, or true and false
  bool required = false;
  bool is_path = false;
  bool has_pattern = false;  // this option, or a part of it, has a pattern
};

// The checked schema of one component. Immutable after construction. Invariant: options_ lists the properties of the
// schema in its order. Any thread may use it.
class OptionsSchema {
 public:
  // Throws an Error that says what is wrong with the schema.
  explicit OptionsSchema(std::string_view text);

  // In the order of the schema.
  const std::vector<Option>& options() const { return options_; }

  // Returns `given` with defaults for missing options. Throws an Error that names the option, its value and the
  // expected values; `owner` ("attention 'paged'") says whose option it is.
  // REQUIRES: `given` is a JSON object.
  nlohmann::json complete(nlohmann::json given, std::string_view owner) const;

 private:
  struct Compiled;

  const Option* find(std::string_view name) const;

  std::vector<Option> options_;
  std::shared_ptr<const Compiled> compiled_;
};

// Returns a value for an error message: its JSON, shortened if it is long, and its type.
std::string show_value(const nlohmann::json& value);

}  // namespace mortise
