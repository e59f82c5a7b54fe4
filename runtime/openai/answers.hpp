// runtime/openai/answers.hpp: the pieces that answers of completions and chat share. Internal to this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "openai/job.hpp"
#include "openai/service.hpp"

namespace mortise {

// "cmpl-..." with 24 random hexadecimal digits.
std::string new_id(std::string_view prefix);

// id, object, created, model, system_fingerprint: the head of an answer.
nlohmann::ordered_json answer_head(const char* id_prefix, const char* object, const ServiceInfo& info,
                                   const AnswerStamp& stamp);

// Of all choices; prompt tokens count once for each prompt.
nlohmann::ordered_json usage_json(const JobResult& result, const AnswerStamp& stamp);

// A token as text of its own: bytes that are no character by themselves show as U+FFFD.
std::string token_text(const Tokenizer& tokenizer, std::int32_t id);

// JSON has no infinity; vLLM's floor, which clients know.
double finite_logprob(float logprob);

std::vector<std::int32_t> ids_of(const std::vector<TokenInfo>& tokens);

// Number of alternatives that clients may ask for.
inline constexpr std::int64_t kMaxTopLogprobs = 20;

}  // namespace mortise
