#include "openai/body.hpp"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

constexpr std::size_t kMaxChoicesOfABody = 16384;  // OpenAI allows 2048 prompts; each choice has a few KiB of state
constexpr std::size_t kMaxCopiedBytes = std::size_t{256} << 20;

// A number that is too large for a float becomes the largest float, which is also out of every range.
float to_float(double number) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(number, -kLargest, kLargest));
}

std::map<std::int32_t, float> read_logit_bias(const nlohmann::json& json) {
  if (!json.is_object()) fail_type("logit_bias", "an object of token id and bias", json);
  std::map<std::int32_t, float> biases;
  for (const auto& [key, value] : json.items()) {
    std::int32_t id = 0;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (code != std::errc{} || end != key.data() + key.size()) fail("logit_bias: {} is not a token id", quote(key));
    if (!value.is_number()) fail_type("logit_bias", "numbers", value);
    biases[id] = to_float(value.get<double>());
  }
  return biases;
}

std::vector<std::string> read_strings(const nlohmann::json& json, const std::string& name, const char* expected) {
  if (!json.is_array()) fail_type(name, expected, json);
  std::vector<std::string> strings;
  for (const nlohmann::json& item : json) {
    if (!item.is_string()) fail_type(name, expected, item);
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::vector<std::string> read_stop(const nlohmann::json& json) {
  if (json.is_string()) return {json.get<std::string>()};
  return read_strings(json, "stop", "a string or a list of strings");
}

// The only supported field of vLLM's structured_outputs. The other fields would change the text, so ignoring them would
// give a wrong answer.
const nlohmann::json* find_structured_choice(const nlohmann::json& json) {
  const Body fields(json, "structured_outputs");
  for (const char* name : {"json", "regex", "grammar", "json_object", "structural_tag"}) {
    const nlohmann::json* value = fields.find(name);
    if (value != nullptr && *value != false) fail("structured_outputs: '{}' is not supported; use 'choice'", name);
  }
  return fields.find("choice");
}

// Refuses another form of guided output. Fields with other names: unserved_fields.
void check_response_format(const Body& body) {
  const nlohmann::json* format = body.find("response_format");
  if (format == nullptr) return;
  const std::string type = Body(*format, "response_format").string("type").value_or("text");
  if (type != "text") fail("response_format: type '{}' is not supported; use 'text', or the field 'choices'", type);
}

std::uint64_t read_seed(const nlohmann::json& json) {
  // A negative seed is valid: only its 64 bits matter.
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  if (json.is_number_integer()) return static_cast<std::uint64_t>(json.get<std::int64_t>());
  // 7.0 is an integer, too. Doubles from 2^53 on do not identify an integer.
  const double number = json.is_number() ? json.get<double>() : std::nan("");
  if (!(std::fabs(number) < 0x1p53 && number == std::floor(number))) fail_type("seed", "an integer of 64 bits", json);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
}

std::vector<GuidedChoice> read_guided_choices(const nlohmann::json& json, const char* name) {
  constexpr const char* kExpected = "a list of texts and lists of token ids";
  if (!json.is_array()) fail_type(name, kExpected, json);
  if (json.empty())
    fail("{} is an empty list; it must have at least one text or list of token ids, or be left out", name);
  std::vector<GuidedChoice> choices;
  for (const nlohmann::json& item : json) {
    if (item.is_string()) {
      choices.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      choices.emplace_back(read_token_ids(item, fmt::format("{}[{}]", name, choices.size())));
    } else {
      fail_type(fmt::format("{}[{}]", name, choices.size()), "a text or a list of token ids", item);
    }
  }
  return choices;
}

// `choices`, or vLLM's name for the field.
std::vector<GuidedChoice> read_choices(const Body& body) {
  const nlohmann::json* structured = body.find("structured_outputs");
  if (structured != nullptr) structured = find_structured_choice(*structured);
  const std::pair<const char*, const nlohmann::json*> fields[] = {{"choices", body.find("choices")},
                                                                  {"guided_choice", body.find("guided_choice")},
                                                                  {"structured_outputs.choice", structured}};
  const char* found = nullptr;
  std::vector<GuidedChoice> choices;
  for (const auto& [name, value] : fields) {
    if (value == nullptr) continue;
    if (found != nullptr) fail("{} and {} mean the same; give only one of them", found, name);
    found = name;
    choices = read_guided_choices(*value, name);
  }
  return choices;
}

}  // namespace

void fail_type(const std::string& name, const char* what, const nlohmann::json& got) {
  std::string text = got.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) {
    std::size_t end = 57;
    while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // cut at the start of a character
    text = text.substr(0, end) + "...";
  }
  fail("{}: expected {}, got {}", name, what, text);
}

Body::Body(const nlohmann::json& json, const char* name) : json_(json) {
  if (!json.is_object()) fail_type(name, "a JSON object", json);
}

const nlohmann::json* Body::find(const char* name) const {
  const auto at = json_.find(name);
  return at == json_.end() || at->is_null() ? nullptr : &*at;
}

const nlohmann::json& Body::require(const char* name) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) fail("{} is missing", name);
  return *value;
}

std::optional<double> Body::number(const char* name) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail_type(name, "a number", *value);
  return value->get<double>();
}

std::optional<std::int64_t> Body::integer(const char* name, std::int64_t low, std::int64_t high) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  // 16.0 is an integer, too, since JSON has one type of number. Compared as a double, so that 1e300 does not overflow.
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number == std::floor(number))) fail_type(name, "an integer", *value);
  if (number < static_cast<double>(low) || number > static_cast<double>(high)) {
    fail("{} is {}; it must be from {} to {}", name, value->dump(), low, high);
  }
  return value->is_number_integer() ? value->get<std::int64_t>() : static_cast<std::int64_t>(number);
}

std::optional<bool> Body::boolean(const char* name) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_type(name, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> Body::string(const char* name) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_type(name, "a string", *value);
  return value->get<std::string>();
}

std::vector<std::int32_t> Body::token_ids(const char* name) const {
  const nlohmann::json* value = find(name);
  return value == nullptr ? std::vector<std::int32_t>{} : read_token_ids(*value, name);
}

std::vector<std::int32_t> read_token_ids(const nlohmann::json& json, const std::string& where) {
  if (!json.is_array()) fail_type(where, "a list of token ids", json);
  std::vector<std::int32_t> ids;
  ids.reserve(json.size());
  for (const nlohmann::json& item : json) {
    // 7.0 is an integer, too.
    const double id = item.is_number() ? item.get<double>() : -1;
    if (!(id >= 0 && id <= kMaxInt32 && id == std::floor(id))) fail_type(where, "token ids", item);
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

std::vector<std::int32_t> read_tokens(const nlohmann::json& json, const std::string& where, const Tokenizer& tokenizer,
                                      bool add_special_tokens) {
  if (json.is_string()) return tokenizer.encode(json.get_ref<const std::string&>(), add_special_tokens);
  if (!json.is_array()) fail_type(where, "text or a list of token ids", json);
  return read_token_ids(json, where);
}

nlohmann::json choices_json(const std::vector<GuidedChoice>& choices) {
  auto json = nlohmann::json::array();
  for (const GuidedChoice& choice : choices) std::visit([&](const auto& value) { json.push_back(value); }, choice);
  return json;
}

void check_role(const std::optional<std::string>& role) {
  if (!role) fail("messages: a message has no role");
  for (const char* known : {"system", "developer", "user", "assistant", "tool", "function"}) {
    if (*role == known) return;
  }
  fail("messages: role {} is not one of system, developer, user, assistant, tool, function", quote(*role));
}

void check_count(std::size_t count, const std::string& of_what) {
  if (count <= kMaxChoicesOfABody) return;
  fail("the body asks for {} {}; at most {} are allowed: send several bodies", count, of_what, kMaxChoicesOfABody);
}

void check_amount(std::size_t num_prompts, const SamplingParams& params) {
  check_count(num_prompts * static_cast<std::size_t>(std::max(1, params.n)),
              fmt::format("choices ({} prompts, n = {})", num_prompts, params.n));
  constexpr std::size_t kBiasBytes = 48;  // one entry of the map
  std::size_t bytes = params.logit_bias.size() * kBiasBytes;
  for (const std::string& stop : params.stop) bytes += stop.size() + sizeof stop;
  for (const GuidedChoice& choice : params.choices) bytes += num_bytes(choice) + sizeof choice;
  if (num_prompts * bytes > kMaxCopiedBytes) {
    fail(
        "the body has {} prompts and {} bytes of stop, choices and logit_bias, which each prompt gets a copy of; at "
        "most {} bytes in all are allowed: send several bodies",
        num_prompts, bytes, kMaxCopiedBytes);
  }
}

std::size_t num_sequences(const std::string& url, const nlohmann::json& body) {
  const auto length = [](const nlohmann::json& object, const char* name) -> std::size_t {
    const auto list = object.is_object() ? object.find(name) : object.end();
    return list != object.end() && list->is_array() ? list->size() : 0;
  };
  if (url == "/v1/score") return length(body, "completions");
  const auto prompt = body.find("prompt");
  const bool many = prompt != body.end() && prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  std::size_t num_each = 1;
  for (const char* name : {"n", "best_of"}) {
    const auto n = body.find(name);
    if (n != body.end() && n->is_number_unsigned()) num_each = std::max(num_each, n->get<std::size_t>());
  }
  num_each = std::min<std::size_t>(num_each, kMaxChoices);  // a larger number is refused above
  if (const auto scored = body.find("choice_logprobs"); scored != body.end() && *scored == true) {
    num_each += length(body, "choices") + length(body, "guided_choice");
    if (const auto other = body.find("structured_outputs"); other != body.end()) num_each += length(*other, "choice");
  }
  return (many ? prompt->size() : 1) * num_each;
}

void check_logprobs(std::size_t num_choices, std::size_t num_tokens, std::int32_t num_alternatives) {
  if (num_choices * num_tokens * static_cast<std::size_t>(num_alternatives + 1) <= kMaxLogprobs) return;
  fail(
      "the body asks for log probabilities of {} tokens in each of {} choices, with {} alternatives; at most {} values "
      "are allowed: lower max_tokens, n or the alternatives, or send several bodies",
      num_tokens, num_choices, num_alternatives, kMaxLogprobs);
}

SpeculationChoice read_speculation(const nlohmann::json& json) {
  const Body fields(json, "speculation");
  for (const auto& [name, value] : json.items()) {
    if (name == "proposer" || name == "max_tokens") continue;
    fail("speculation: unknown field {}; it has proposer and max_tokens", quote(name));
  }
  SpeculationChoice choice;
  try {
    choice.proposer = fields.string("proposer");
    if (const auto n = fields.integer("max_tokens", 0, kMaxInt32)) choice.max_tokens = static_cast<std::int32_t>(*n);
  } catch (const Error& error) {
    fail("speculation.{}", error.what());
  }
  return choice;
}

void read_scheduling(const Body& body, Request& request) {
  request.priority = static_cast<std::int32_t>(body.integer("priority", INT32_MIN, INT32_MAX).value_or(0));
  // 0 means no group.
  if (const auto group = body.string("group"))
    request.group = std::max<std::uint64_t>(1, XXH3_64bits(group->data(), group->size()));
  if (const nlohmann::json* speculation = body.find("speculation"))
    request.speculation = read_speculation(*speculation);
}

SamplingParams read_sampling(const Body& body, SamplingParams defaults) {
  SamplingParams params = std::move(defaults);
  const auto number = [&](const char* name, float& value) {
    if (const auto given = body.number(name)) value = to_float(*given);
  };
  const auto integer = [&](const char* name, std::int64_t low, std::int32_t& value, std::int64_t high = kMaxInt32) {
    if (const auto given = body.integer(name, low, high)) value = static_cast<std::int32_t>(*given);
  };
  number("temperature", params.temperature);
  number("top_p", params.top_p);
  number("min_p", params.min_p);
  number("repetition_penalty", params.repetition_penalty);
  number("frequency_penalty", params.frequency_penalty);
  number("presence_penalty", params.presence_penalty);
  integer("top_k", -1, params.top_k);
  integer("n", 1, params.n, kMaxChoices);
  integer("max_tokens", 0, params.max_tokens);
  integer("min_tokens", 0, params.min_tokens);
  if (const nlohmann::json* seed = body.find("seed")) {
    params.seed = read_seed(*seed);
  }
  if (const auto ignore = body.boolean("ignore_eos")) params.ignore_eos = *ignore;
  if (const nlohmann::json* stop = body.find("stop")) params.stop = read_stop(*stop);
  if (const nlohmann::json* bias = body.find("logit_bias")) params.logit_bias = read_logit_bias(*bias);
  params.stop_token_ids = body.token_ids("stop_token_ids");
  if (const auto skip = body.boolean("skip_special_tokens")) params.skip_special_tokens = *skip;
  check_response_format(body);
  params.choices = read_choices(body);
  if (!params.choices.empty() && body.find("max_tokens") == nullptr) params.max_tokens = kMaxInt32;
  return params;
}

}  // namespace mortise
