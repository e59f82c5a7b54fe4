#include "openai/known_fields.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "loader/nearest.hpp"
#include "openai/unserved_fields.hpp"

namespace mortise {
namespace {

struct KnownField {
  const char* name;
  unsigned urls;
};

constexpr unsigned kScored = kGenerating | kScore;
constexpr unsigned kAll = kScored | kDecisions;

constexpr KnownField kKnown[] = {
    {"model", kAll},
    {"priority", kAll},
    {"group", kAll},
    {"speculation", kAll},
    {"add_special_tokens", kScored},
    {"seed", kScored},  // of scores: ignored, since no token is drawn
    {"prompt", kCompletions | kScore},
    {"completions", kScore},
    {"id", kScore},
    {"messages", kChat},
    {"input", kDecisions},
    {"questions", kDecisions},
    {"add_generation_prompt", kChat},
    {"continue_final_message", kChat},
    {"chat_template_kwargs", kChat},
    {"echo", kCompletions},
    {"suffix", kCompletions},
    {"best_of", kCompletions},
    {"max_completion_tokens", kChat},
    {"top_logprobs", kChat},
    {"temperature", kGenerating},
    {"top_p", kGenerating},
    {"top_k", kGenerating},
    {"min_p", kGenerating},
    {"repetition_penalty", kGenerating},
    {"frequency_penalty", kGenerating},
    {"presence_penalty", kGenerating},
    {"n", kGenerating},
    {"max_tokens", kGenerating},
    {"min_tokens", kGenerating},
    {"stop", kGenerating},
    {"stop_token_ids", kGenerating},
    {"ignore_eos", kGenerating},
    {"logit_bias", kGenerating},
    {"logprobs", kGenerating},
    {"skip_special_tokens", kGenerating},
    {"choices", kGenerating},
    {"guided_choice", kGenerating},
    {"structured_outputs", kGenerating},
    {"response_format", kGenerating},
    {"choice_logprobs", kGenerating},
    {"return_token_ids", kGenerating},
    {"return_draft_info", kGenerating},
    {"return_tokens_as_token_ids", kGenerating},
    {"stream", kGenerating},
    {"stream_options", kGenerating},
    {"prediction", kGenerating},
    {"resume_token_ids", kGenerating},
    // Known fields without effect on the answer.
    {"user", kAll},
    {"metadata", kAll},
    {"request_id", kAll},
    {"store", kGenerating},
    {"service_tier", kGenerating},
    {"safety_identifier", kGenerating | kDecisions},
    {"prompt_cache_key", kGenerating | kDecisions},
    {"prompt_cache_retention", kGenerating},
    {"prompt_cache_options", kDecisions},
    {"parallel_tool_calls", kChat},   // there are no tools
    {"length_penalty", kGenerating},  // for beam search
    {"early_stopping", kGenerating},  // for beam search
    {"truncation_side", kScored},     // for truncate_prompt_tokens
    {"guided_decoding_backend", kGenerating},
};

// Fields of nested objects whose fields are all known. (Template variables and metadata may have any fields.)
constexpr KnownField kNested[] = {
    {"stream_options.include_usage", kGenerating},
    {"stream_options.continuous_usage_stats", kGenerating},
    {"stream_options.include_event_ids", kGenerating},
    {"stream_options.include_obfuscation", kGenerating},  // padding that OpenAI's server sends
    {"prediction.type", kGenerating},
    {"prediction.content", kGenerating},
    {"prediction.token_ids", kGenerating},
};

std::vector<std::string> known_names(unsigned asked) {
  std::vector<std::string> names;
  for (const KnownField& field : kKnown) {
    if ((field.urls & asked) != 0) names.emplace_back(field.name);
  }
  for (const KnownField& field : kNested) {
    if ((field.urls & asked) != 0) names.emplace_back(field.name);
  }
  for (const UnservedField& field : unserved_fields()) {
    if ((field.urls & asked) != 0) names.emplace_back(field.name);
  }
  return names;
}

std::string printable(std::string_view name) {
  constexpr std::size_t kMax = 60;
  std::string text(name.substr(0, kMax));
  for (char& c : text) {
    if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') c = '?';
  }
  return text + (name.size() > kMax ? "..." : "");
}

}  // namespace

std::vector<std::string> unknown_fields(std::string_view url, const nlohmann::json& body) {
  const unsigned asked = body_url(url);
  if (asked == 0 || !body.is_object()) return {};
  static const std::map<unsigned, std::vector<std::string>> kNames = {{kCompletions, known_names(kCompletions)},
                                                                      {kChat, known_names(kChat)},
                                                                      {kScore, known_names(kScore)},
                                                                      {kDecisions, known_names(kDecisions)}};
  const std::vector<std::string>& known = kNames.at(asked);
  std::vector<std::string> unknown;
  const auto check = [&](const std::string& name) {
    if (std::find(known.begin(), known.end(), name) == known.end()) unknown.push_back(name);
  };
  for (const auto& [name, value] : body.items()) {
    check(name);
    if (!value.is_object() || (name != "stream_options" && name != "prediction")) continue;
    for (const auto& [nested, ignored] : value.items()) check(name + "." + nested);
  }
  return unknown;
}

bool is_known_field(std::string_view name) {
  const auto has_name = [&](const auto& field) { return field.name == name; };
  return std::ranges::any_of(kKnown, has_name) || std::ranges::any_of(unserved_fields(), has_name);
}

std::string unknown_fields_text(std::string_view url, const std::vector<std::string>& names) {
  constexpr std::size_t kMax = 10;
  if (names.empty()) return "";
  const std::vector<std::string> known = known_names(body_url(url));
  std::string text = "unknown fields are ignored: ";
  for (std::size_t i = 0; i < names.size() && i < kMax; ++i) {
    const auto near = names[i].size() <= 60 ? nearest_name(names[i], known) : std::nullopt;
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", printable(names[i]),
                        near ? fmt::format(" (did you mean '{}'?)", *near) : "");
  }
  return text + (names.size() > kMax ? fmt::format(" and {} more", names.size() - kMax) : "");
}

std::vector<std::string> UnknownFieldLog::note(std::string_view url, const nlohmann::json& body) {
  constexpr std::size_t kMaxSeen = 1000;  // bounds the memory for names of one misbehaving client
  std::vector<std::string> names = unknown_fields(url, body), fresh;
  if (names.empty()) return names;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& name : names) {
      if (seen_.size() < kMaxSeen && seen_.insert(name).second) fresh.push_back(name);
    }
  }
  if (!fresh.empty()) spdlog::warn("{}: {}", url, unknown_fields_text(url, fresh));
  return names;
}

}  // namespace mortise
