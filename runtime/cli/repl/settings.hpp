// runtime/cli/repl/settings.hpp: the sampling fields of a dialogue, as /set, /seed and the program's flags give them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sampling/params.hpp"

namespace mortise {

class Settings {
 public:
  // `fields` are those of a request body; a field that is absent has its value of `defaults`. Throws an Error when one
  // is wrong.
  Settings(nlohmann::json fields, SamplingParams defaults, std::int32_t vocab_size);

  // The fields that are set, for another model. The default of max_tokens stays. Throws an Error when a field does not
  // suit that model: an id that it does not have.
  Settings for_model(SamplingParams defaults, std::int32_t vocab_size) const;

  // `text` is a JSON value, or plain text for fields that take text; "default" unsets. Throws an Error that names the
  // field and changes nothing.
  void set(std::string_view name, std::string_view text);
  // Puts other fields in the place of all. Throws an Error and changes nothing.
  void replace(nlohmann::json fields);

  SamplingParams params() const;
  const nlohmann::json& fields() const { return fields_; }  // those that are set

  // "temperature  0.7", a line for each field; '*' marks those that are set.
  std::string table() const;
  // "temperature is 0.7". Throws an Error for an unknown field.
  std::string show(std::string_view name) const;

  // All names, with their values where they are few.
  static std::vector<std::pair<std::string, std::vector<std::string>>> words();

 private:
  nlohmann::json fields_;
  SamplingParams defaults_;
  std::int32_t vocab_size_;
};

}  // namespace mortise
