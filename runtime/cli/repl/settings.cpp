#include "cli/repl/settings.hpp"

#include <algorithm>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "loader/nearest.hpp"
#include "openai/body.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;

struct Field {
  const char* name;
  const char* what;
  Json (*value)(const SamplingParams&);
  bool takes_text = false;  // a value that is not JSON is plain text
  std::vector<std::string> values = {};
};

// Returns a float as it was typed: 0.7, not 0.699999988.
Json number(float value) {
  return Json::parse(fmt::format("{}", value));
}

const std::vector<Field>& all_fields() {
  using P = SamplingParams;
  static const std::vector<Field> fields = {
      {"temperature", "0 is greedy", [](const P& p) { return number(p.temperature); }},
      {"top_p", "keep the likeliest tokens up to this probability; 1: all", [](const P& p) { return number(p.top_p); }},
      {"top_k", "keep this many tokens; 0: all", [](const P& p) { return Json(p.top_k); }},
      {"min_p", "drop tokens below this share of the likeliest's probability; 0: none",
       [](const P& p) { return number(p.min_p); }},
      {"seed", "the same seed gives the same tokens; null: drawn for each answer",
       [](const P& p) { return p.seed ? Json(*p.seed) : Json(); }},
      {"max_tokens", "maximum number of tokens in an answer", [](const P& p) { return Json(p.max_tokens); }},
      {"min_tokens", "no end before that many", [](const P& p) { return Json(p.min_tokens); }},
      {"stop", "a text before which the answer ends, or a JSON list of such texts",
       [](const P& p) { return Json(p.stop); },
       /*takes_text=*/true},
      {"stop_token_ids", "a JSON list of token ids that end the answer",
       [](const P& p) { return Json(p.stop_token_ids); }},
      {"choices", "a JSON list of texts and lists of token ids, one of which is the answer",
       [](const P& p) { return choices_json(p.choices); }},
      {"ignore_eos", "go on past end tokens", [](const P& p) { return Json(p.ignore_eos); }, false, {"true", "false"}},
      {"repetition_penalty", "above 1: repeats less", [](const P& p) { return number(p.repetition_penalty); }},
      {"frequency_penalty", "subtracted for each earlier use", [](const P& p) { return number(p.frequency_penalty); }},
      {"presence_penalty", "subtracted once for a used token", [](const P& p) { return number(p.presence_penalty); }},
      {"logit_bias", "added to logits: a JSON object of token id and bias",
       [](const P& p) {
         Json biases = Json::object();
         for (const auto& [id, bias] : p.logit_bias) biases[std::to_string(id)] = number(bias);
         return biases;
       }},
  };
  return fields;
}

const Field& find_field(std::string_view name) {
  for (const Field& field : all_fields()) {
    if (field.name == name) return field;
  }
  std::vector<std::string> names;
  for (const Field& field : all_fields()) names.emplace_back(field.name);
  fail("unknown field '{}'{}{}{}", name, did_you_mean(name, names),
       nearest_name(name, names) ? " there are " : "; there are ", join_names(names));
}

// Returns the value of `text`. For a field that takes only text, text that looks like another type is text: /set stop
// 42.
Json parse_value(const Field& field, std::string_view text) {
  const std::optional<Json> value = find_json(text);
  const bool is_taken = value && (!field.takes_text || value->is_string() || value->is_array());
  return is_taken ? *value : Json(text);
}

SamplingParams read(const Json& fields, const SamplingParams& defaults, std::int32_t vocab_size) {
  SamplingParams params = read_sampling(Body(fields), defaults);
  validate(params, vocab_size);
  return params;
}

std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Settings::Settings(Json fields, SamplingParams defaults, std::int32_t vocab_size)
    : fields_(Json::object()), defaults_(std::move(defaults)), vocab_size_(vocab_size) {
  replace(std::move(fields));
}

Settings Settings::for_model(SamplingParams defaults, std::int32_t vocab_size) const {
  defaults.max_tokens = defaults_.max_tokens;
  return Settings(fields_, std::move(defaults), vocab_size);
}

void Settings::set(std::string_view name, std::string_view text) {
  const Field& field = find_field(name);
  Json changed = fields_;
  const Json value = text == "default" ? Json() : parse_value(field, text);
  if (value.is_null()) {
    changed.erase(field.name);
  } else {
    changed[field.name] = value;
  }
  read(changed, defaults_, vocab_size_);
  fields_ = std::move(changed);
}

void Settings::replace(Json fields) {
  for (const auto& [name, value] : fields.items()) find_field(name);
  read(fields, defaults_, vocab_size_);
  fields_ = std::move(fields);
}

SamplingParams Settings::params() const {
  return read_sampling(Body(fields_), defaults_);
}

std::string Settings::table() const {
  const SamplingParams now = params();
  std::string text;
  for (const Field& field : all_fields()) {
    text += fmt::format("{} {:<18}  {:<12}  {}\n", fields_.contains(field.name) ? '*' : ' ', field.name,
                        text_of(field.value(now)), field.what);
  }
  return text;
}

std::string Settings::show(std::string_view name) const {
  const Field& field = find_field(name);
  return fmt::format("{} is {}{}", field.name, text_of(field.value(params())),
                     fields_.contains(field.name) ? "" : " (the default)");
}

std::vector<std::pair<std::string, std::vector<std::string>>> Settings::words() {
  std::vector<std::pair<std::string, std::vector<std::string>>> words;
  for (const Field& field : all_fields()) words.emplace_back(field.name, field.values);
  return words;
}

}  // namespace mortise
