#include "openai/answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "error.hpp"

namespace mortise {

std::string new_id(std::string_view prefix) {
  // thread_local: seeding takes long, and a generator is not thread-safe.
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}-{:016x}{:08x}", prefix, random(), random() & 0xffffffff);
}

Answer make_answer(const std::optional<Error>& error, const std::function<nlohmann::ordered_json()>& make) {
  if (error) return error_answer(*error);
  try {
    return {200, make(), std::nullopt};
  } catch (const std::exception& failure) {
    return error_answer(Error(failure.what(), ErrorCode::kInternal));
  }
}

nlohmann::ordered_json answer_head(const char* id_prefix, const char* object, const ServiceInfo& info,
                                   const AnswerStamp& stamp) {
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return {{"id", stamp.id ? fmt::format("{}-{}", id_prefix, *stamp.id) : new_id(id_prefix)},
          {"object", object},
          {"created", stamp.created.value_or(now.count())},
          {"model", info.model},
          {"system_fingerprint", info.system_fingerprint}};
}

void UsageSum::add(const Usage& choice) {
  completion += choice.completion_tokens;
  accepted += choice.accepted_prediction_tokens;
  rejected += choice.rejected_prediction_tokens;
}

nlohmann::ordered_json UsageSum::json() const {
  nlohmann::ordered_json usage = {
      {"prompt_tokens", prompt}, {"completion_tokens", completion}, {"total_tokens", prompt + completion}};
  if (cached) usage["prompt_tokens_details"] = {{"cached_tokens", *cached}};
  if (accepted + rejected > 0) {
    usage["completion_tokens_details"] = {{"accepted_prediction_tokens", accepted},
                                          {"rejected_prediction_tokens", rejected}};
  }
  return usage;
}

nlohmann::ordered_json usage_json(const JobResult& result, const AnswerStamp& stamp) {
  UsageSum sum;
  std::int64_t cached = 0;
  for (const std::vector<ChoiceResult>& choices : result) {
    sum.prompt += choices.front().usage.prompt_tokens;
    cached += choices.front().usage.cached_tokens;
    for (const ChoiceResult& choice : choices) sum.add(choice.usage);
  }
  if (stamp.schedule_figures) sum.cached = cached;
  return sum.json();
}

TokenTexts::TokenTexts(const Tokenizer& tokenizer, bool as_ids)
    : tokenizer_(tokenizer), as_ids_(as_ids), before_(tokenizer.encode(".", /*add_special_tokens=*/false)) {
  before_text_ = tokenizer.decode(before_, /*skip_special_tokens=*/false);
}

std::string TokenTexts::plain(std::int32_t id) const {
  std::vector<std::int32_t> ids = before_;
  ids.push_back(id);
  const std::string text = tokenizer_.decode(ids, /*skip_special_tokens=*/false);
  if (text.starts_with(before_text_)) return text.substr(before_text_.size());
  return tokenizer_.decode(std::span(&id, 1), /*skip_special_tokens=*/false);
}

double finite_logprob(float logprob) {
  constexpr double kMin = -9999.0;
  return logprob > kMin ? static_cast<double>(logprob) : kMin;
}

nlohmann::ordered_json scored_json(const std::vector<TokenInfo>& tokens) {
  double sum = 0;
  bool is_greedy = true;
  auto logprobs = nlohmann::ordered_json::array(), ranks = nlohmann::ordered_json::array();
  for (const TokenInfo& token : tokens) {
    sum += finite_logprob(token.logprob);
    is_greedy = is_greedy && token.rank == 1;
    logprobs.push_back(finite_logprob(token.logprob));
    ranks.push_back(token.rank);
  }
  return {{"logprob", sum},
          {"token_ids", ids_of(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"ranks", std::move(ranks)},
          {"is_greedy", is_greedy}};
}

std::vector<std::int32_t> ids_of(const std::vector<TokenInfo>& tokens) {
  std::vector<std::int32_t> ids;
  ids.reserve(tokens.size());
  for (const TokenInfo& token : tokens) ids.push_back(token.id);
  return ids;
}

std::vector<bool> accepted_drafts(const std::vector<TokenInfo>& tokens) {
  std::vector<bool> accepted;
  accepted.reserve(tokens.size());
  for (const TokenInfo& token : tokens) accepted.push_back(token.draft == DraftOutcome::kAccepted);
  return accepted;
}

}  // namespace mortise
