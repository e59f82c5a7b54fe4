// runtime/conformance/option_cases.cpp: rules of options: the schema, their limits, and what a refusal says.
#include <cmath>

#include "conformance/subject.hpp"

namespace mortise::conformance {
namespace {

using Json = nlohmann::json;

// Creates an instance with one option changed, and destroys it. Returns the answer.
Answer try_option(Subject& subject, const std::string& name, const Json& value) {
  PartSetup setup = subject.setup();
  setup.options[name] = value;
  Part part(subject.component(), std::move(setup));
  const Answer answer = part.created();
  const bool may_refuse = answer.ok() || answer.status == MORTISE_INVALID_ARGUMENT ||
                          answer.status == MORTISE_FAILED_PRECONDITION || answer.status == MORTISE_NOT_FOUND ||
                          answer.status == MORTISE_UNAVAILABLE || answer.status == MORTISE_OUT_OF_RANGE ||
                          answer.status == MORTISE_RESOURCE_EXHAUSTED || answer.status == MORTISE_UNIMPLEMENTED ||
                          answer.status == MORTISE_DATA_LOSS;
  expect(may_refuse, "create with {} = {} fails: {}; a value that the schema allows must not cause INTERNAL", name,
         value.dump(), answer.text());
  return answer;
}

bool allows(Subject& subject, Json options) {
  try {
    subject.component().schema.complete(std::move(options), "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

void schema_is_closed(Subject& subject) {
  const Json schema = Json::parse(subject.component().abi->options_schema);
  expect(schema.contains("additionalProperties") && schema["additionalProperties"] == false,
         "the schema lacks \"additionalProperties\": false; other programs that read it would accept any option");
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, property] : properties.items()) {
    const bool has_type = property.contains("type") || property.contains("enum") || property.contains("oneOf") ||
                          property.contains("anyOf") || property.contains("const");
    expect(has_type, "the option '{}' has no type", name);
    expect(!property["title"].get<std::string>().empty(), "the option '{}' has an empty title", name);
  }
}

void defaults_work(Subject& subject) {
  const auto part = subject.make();
  part->destroy();
}

// Tries every boundary value that the schema names: limits, list values, and both booleans.
void every_limit_works(Subject& subject) {
  const Json options = subject.options();
  const Json schema = Json::parse(subject.component().abi->options_schema);
  for (const Option& option : subject.component().schema.options()) {
    if (option.is_path) continue;
    const Json& property = schema["properties"][option.name];
    std::vector<Json> values = option.values;
    for (const char* limit : {"minimum", "maximum"}) {
      if (property.contains(limit)) values.push_back(property[limit]);
    }
    for (const Json& value : values) {
      Json changed = options;
      changed[option.name] = value;
      if (allows(subject, changed)) try_option(subject, option.name, value);
    }
  }
}

void whole_numbers_may_be_written_as_floats(Subject& subject) {
  for (const Option& option : subject.component().schema.options()) {
    if (option.type != "integer" || !option.default_value.is_number_integer()) continue;
    const Answer answer = try_option(subject, option.name, option.default_value.get<double>());
    expect(answer.ok(), "create with {} = {}.0 fails: {}; JSON does not distinguish 4 from 4.0", option.name,
           option.default_value.dump(), answer.text());
  }
}

void odd_texts_do_no_harm(Subject& subject) {
  const std::vector<std::string> texts = {
      "",       " ",  "\n",        "\"\\",      "../../..", std::string(100000, 'x'), "\xf0\x9f\xa6\x8a",
      "%s%n%x", "-1", "/dev/null", "/dev/full", "/"};
  const Json options = subject.options();
  for (const Option& option : subject.component().schema.options()) {
    for (const std::string& text : texts) {
      Json changed = options;
      changed[option.name] = text;
      if (allows(subject, changed)) try_option(subject, option.name, text);
    }
  }
}

void create_takes_no_error(Subject& subject) {
  const Json options = subject.options();
  for (const Option& option : subject.component().schema.options()) {
    for (const Json& value : {Json(""), Json("/no/such/file"), Json(-1), Json(0), Json(1 << 20)}) {
      Json changed = options;
      changed[option.name] = value;
      if (!allows(subject, changed)) continue;
      PartSetup setup = subject.setup();
      setup.options = changed;
      setup.gives_error = false;
      const Part part(subject.component(), std::move(setup));
    }
  }
  PartSetup setup = subject.setup();
  setup.gives_error = false;
  const Part part(subject.component(), std::move(setup));
  expect(part.created().ok(), "create with error = NULL fails: {}", status_name(part.created().status));
}

constexpr Case kOptionCases[] = {
    {"options.schema", "The schema names every option with a type and a title, and allows no others.", kOfAll,
     schema_is_closed},
    {"options.defaults", "An instance can be created with the default options.", kOfAll, defaults_work},
    {"options.limits", "Every limit that the schema names works, or is refused with a message.", kOfAll,
     every_limit_works},
    {"options.floats", "A whole number may be written with a decimal point.", kOfAll,
     whole_numbers_may_be_written_as_floats},
    {"options.texts", "Texts that the schema allows do no harm, however odd they are.", kOfAll, odd_texts_do_no_harm},
    {"options.no_error", "create can be called without an error to fill.", kOfAll, create_takes_no_error},
};

}  // namespace

std::span<const Case> option_cases() {
  return kOptionCases;
}

}  // namespace mortise::conformance
