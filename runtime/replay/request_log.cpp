#include "replay/request_log.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "error.hpp"
#include "openai/body.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// The largest integer that Body::integer can bound exactly, because it uses doubles.
constexpr std::int64_t kMaxExact = std::int64_t{1} << 53;

OrderedJson float_json(float value) {
  if (std::isfinite(value)) return static_cast<double>(value);
  return fmt::format("0x{:08x}", std::bit_cast<std::uint32_t>(value));
}

float read_float(const Json& json, const char* where) {
  if (json.is_number()) {
    const double value = json.get<double>();
    if (std::abs(value) <= std::numeric_limits<float>::max()) return static_cast<float>(value);
  } else if (json.is_string()) {
    const std::string& text = json.get_ref<const std::string&>();
    std::uint32_t bits = 0;
    if (text.size() == 10 && text.starts_with("0x")) {
      const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
      if (error == std::errc{} && end == text.data() + text.size()) return std::bit_cast<float>(bits);
    }
  }
  fail_type(where, "32-bit floats, or their bits as \"0xff800000\"", json);
}

std::uint64_t read_uint64(const Body& body, const char* name) {
  const Json& value = body.require(name);
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<std::int64_t>() < 0)) {
    fail_type(name, "an integer from 0 to 2^64 - 1", value);
  }
  return value.get<std::uint64_t>();
}

std::string read_string(const Body& body, const char* name) {
  body.require(name);
  return *body.string(name);
}

const Json& read_list(const Body& body, const char* name) {
  const Json& value = body.require(name);
  if (!value.is_array()) fail_type(name, "a list", value);
  return value;
}

// The structured binding names every member, so a new member does not compile until it is written here. read_sampling()
// reads them back.
OrderedJson sampling_json(const SamplingParams& params) {
  const auto& [temperature, top_p, top_k, min_p, repetition_penalty, frequency_penalty, presence_penalty, logit_bias,
               seed, n, max_tokens, min_tokens, ignore_eos, stop, stop_token_ids, choices, skip_special_tokens] =
      params;
  OrderedJson json = {{"temperature", temperature},
                      {"top_p", top_p},
                      {"top_k", top_k},
                      {"min_p", min_p},
                      {"repetition_penalty", repetition_penalty},
                      {"frequency_penalty", frequency_penalty},
                      {"presence_penalty", presence_penalty},
                      {"n", n},
                      {"max_tokens", max_tokens},
                      {"min_tokens", min_tokens},
                      {"ignore_eos", ignore_eos},
                      {"stop", stop},
                      {"stop_token_ids", stop_token_ids},
                      {"skip_special_tokens", skip_special_tokens}};
  if (seed) json["seed"] = *seed;
  if (!choices.empty()) json["choices"] = choices_json(choices);
  if (!logit_bias.empty()) {
    OrderedJson& biases = json["logit_bias"] = OrderedJson::object();
    for (const auto& [id, bias] : logit_bias) biases[std::to_string(id)] = bias;
  }
  return json;
}

OrderedJson logprobs_json(const std::vector<TokenInfo>& tokens) {
  auto values = OrderedJson::array();
  for (const TokenInfo& token : tokens) values.push_back(float_json(token.logprob));
  return values;
}

OrderedJson top_json(const std::vector<TokenInfo>& tokens) {
  auto lists = OrderedJson::array();
  for (const TokenInfo& token : tokens) {
    auto list = OrderedJson::array();
    for (const auto& [id, logprob] : token.top) list.push_back(OrderedJson::array({id, float_json(logprob)}));
    lists.push_back(std::move(list));
  }
  return lists;
}

OrderedJson choice_json(const RecordedChoice& choice, bool with_top) {
  OrderedJson json = {{"finish_reason", to_string(choice.finish)}};
  if (choice.stop_token) json["stop_token"] = *choice.stop_token;
  if (!choice.error.empty()) json["error"] = choice.error;
  auto ids = OrderedJson::array();
  for (const TokenInfo& token : choice.tokens) ids.push_back(token.id);
  json["tokens"] = std::move(ids);
  json["token_logprobs"] = logprobs_json(choice.tokens);
  if (with_top) json["top_logprobs"] = top_json(choice.tokens);
  if (choice.prompt.empty()) return json;
  json["prompt_logprobs"] = logprobs_json(choice.prompt);
  if (with_top) json["prompt_top_logprobs"] = top_json(choice.prompt);
  return json;
}

FinishReason read_finish(const std::string& text) {
  for (FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kAborted, FinishReason::kError}) {
    if (text == to_string(reason)) return reason;
  }
  fail("finish_reason is '{}'; it must be stop, length, abort or error", text);
}

void read_logprobs(const Body& body, const char* name, std::vector<TokenInfo>& tokens) {
  const Json& values = read_list(body, name);
  if (values.size() != tokens.size()) {
    fail("{} has {} values for {} tokens; it must have one for each", name, values.size(), tokens.size());
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i].logprob = read_float(values[i], name);
    tokens[i].rank = 1;  // "known"; ranks are not recorded
  }
}

void read_top(const Body& body, const char* name, std::vector<TokenInfo>& tokens) {
  if (body.find(name) == nullptr) return;
  const Json& lists = read_list(body, name);
  if (lists.size() != tokens.size()) {
    fail("{} has {} lists for {} tokens; it must have one for each", name, lists.size(), tokens.size());
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!lists[i].is_array()) fail_type(name, "lists of [token id, log probability]", lists[i]);
    for (const Json& pair : lists[i]) {
      if (!pair.is_array() || pair.size() != 2) fail_type(name, "lists of [token id, log probability]", pair);
      tokens[i].top.emplace_back(read_token_ids(Json::array({pair[0]}), name).front(), read_float(pair[1], name));
    }
  }
}

RecordedChoice read_choice(const Json& json, const Request& request) {
  const Body body(json, "choices");
  RecordedChoice choice;
  choice.finish = read_finish(read_string(body, "finish_reason"));
  choice.error = body.string("error").value_or("");
  if (const auto token = body.integer("stop_token", 0, INT32_MAX))
    choice.stop_token = static_cast<std::int32_t>(*token);
  for (std::int32_t id : body.token_ids("tokens")) choice.tokens.emplace_back().id = id;
  read_logprobs(body, "token_logprobs", choice.tokens);
  read_top(body, "top_logprobs", choice.tokens);
  if (body.find("prompt_logprobs") != nullptr) {
    const std::size_t first = static_cast<std::size_t>(request.score_from.value_or(0));
    const std::size_t num_scored = read_list(body, "prompt_logprobs").size();
    if (first == 0 || first + num_scored > request.prompt.size()) {
      fail("prompt_logprobs has {} values, which do not fit a prompt of {} tokens and its score_from", num_scored,
           request.prompt.size());
    }
    for (std::size_t i = 0; i < num_scored; ++i) choice.prompt.emplace_back().id = request.prompt[first + i];
    read_logprobs(body, "prompt_logprobs", choice.prompt);
    read_top(body, "prompt_top_logprobs", choice.prompt);
  }
  return choice;
}

}  // namespace

OrderedJson to_json(const LogHeader& header) {
  return {{"mortise_log", kLogVersion},
          {"pipeline", header.pipeline},
          {"model", header.model},
          {"system_fingerprint", header.system_fingerprint},
          {"numerics_id", header.numerics_id},
          {"vocab_size", header.vocab_size},
          {"vocabulary", header.vocabulary}};
}

OrderedJson to_json(const RecordedRequest& recorded) {
  const Request& request = recorded.request;
  OrderedJson json = {{"request", recorded.id},       {"pipeline", recorded.pipeline},
                      {"prompt", request.prompt},     {"sampling", sampling_json(request.sampling)},
                      {"priority", request.priority}, {"group", request.group}};
  if (!request.client_id.empty()) json["request_id"] = request.client_id;
  if (request.logprobs) json["logprobs"] = *request.logprobs;
  if (request.score_from) json["score_from"] = *request.score_from;
  OrderedJson speculation = OrderedJson::object();
  if (request.speculation.proposer) speculation["proposer"] = *request.speculation.proposer;
  if (request.speculation.max_tokens) speculation["max_tokens"] = *request.speculation.max_tokens;
  if (!speculation.empty()) json["speculation"] = std::move(speculation);
  auto choices = OrderedJson::array();
  for (const RecordedChoice& choice : recorded.choices) {
    choices.push_back(choice_json(choice, request.logprobs.value_or(0) > 0));
  }
  json["choices"] = std::move(choices);
  return json;
}

bool is_log_header(const Json& line) {
  return line.is_object() && line.contains("mortise_log");
}

LogHeader read_log_header(const Json& line) {
  const Body body(line, "header");
  if (body.require("mortise_log") != kLogVersion) {
    fail("mortise_log is {}; this program reads version {}", body.require("mortise_log").dump(), kLogVersion);
  }
  LogHeader header;
  header.pipeline = read_string(body, "pipeline");
  header.model = read_string(body, "model");
  header.system_fingerprint = read_string(body, "system_fingerprint");
  header.numerics_id = read_string(body, "numerics_id");
  body.require("vocab_size");
  header.vocab_size = static_cast<std::int32_t>(*body.integer("vocab_size", 1, INT32_MAX));
  header.vocabulary = read_string(body, "vocabulary");
  return header;
}

RecordedRequest read_recorded_request(const Json& line) {
  const Body body(line, "request");
  RecordedRequest recorded;
  recorded.id = read_uint64(body, "request");
  recorded.pipeline = read_string(body, "pipeline");
  Request& request = recorded.request;
  body.require("prompt");
  request.prompt = body.token_ids("prompt");
  request.sampling = read_sampling(Body(body.require("sampling"), "sampling"), SamplingParams{});
  if (!request.sampling.seed) fail("sampling: seed is missing; a request cannot be repeated without it");
  request.priority = static_cast<std::int32_t>(body.integer("priority", INT32_MIN, INT32_MAX).value_or(0));
  if (body.find("group") != nullptr) request.group = read_uint64(body, "group");
  request.client_id = body.string("request_id").value_or("");
  if (const auto n = body.integer("logprobs", 0, INT32_MAX)) request.logprobs = static_cast<std::int32_t>(*n);
  if (const auto from = body.integer("score_from", 1, INT32_MAX)) request.score_from = static_cast<std::int32_t>(*from);
  if (const Json* speculation = body.find("speculation")) request.speculation = read_speculation(*speculation);
  const Json& choices = read_list(body, "choices");
  if (choices.size() != static_cast<std::size_t>(request.sampling.n)) {
    fail("choices has {} entries for n = {}; it must have one for each", choices.size(), request.sampling.n);
  }
  for (const Json& choice : choices) recorded.choices.push_back(read_choice(choice, request));
  return recorded;
}

std::string exact_text(float value) {
  return fmt::format("{} (0x{:08x})", value, std::bit_cast<std::uint32_t>(value));
}

}  // namespace mortise
