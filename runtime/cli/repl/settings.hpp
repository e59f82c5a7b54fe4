// runtime/cli/repl/settings.hpp: the sampling fields of a dialogue, set by /set, /seed and the program's options.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sampling/params.hpp"

namespace mortise {

// The fields that are set. Invariant: all of them are valid for the model. Used by one thread.
class Settings {
 public:
  // `fields` are fields of a request body; an absent field has its value in `defaults`. Throws an Error for an invalid
  // field.
  Settings(nlohmann::json fields, SamplingParams defaults, std::int32_t vocab_size);

  // Returns the same fields for another model; the default of max_tokens is kept. Throws an Error if a field does not
  // suit the model, such as a token id that it does not have.
  Settings for_model(SamplingParams defaults, std::int32_t vocab_size) const;

  // Sets a field. `text` is a JSON value, or plain text for fields that take text; "default" unsets the field. Throws
  // an Error that names the field, without changing anything.
  void set(std::string_view name, std::string_view text);
  // Replaces all fields. Throws an Error, without changing anything.
  void replace(nlohmann::json fields);

  SamplingParams params() const;
  const nlohmann::json& fields() const { return fields_; }  // the fields that are set

  // Returns a line for each field, "temperature 0.7"; '*' marks fields that are set.
  std::string table() const;
  // Returns "temperature is 0.7". Throws an Error for an unknown field.
  std::string show(std::string_view name) const;

  // Returns the names of all fields, with their values if there are few.
  static std::vector<std::pair<std::string, std::vector<std::string>>> words();

 private:
  nlohmann::json fields_;
  SamplingParams defaults_;
  std::int32_t vocab_size_;
};

}  // namespace mortise
