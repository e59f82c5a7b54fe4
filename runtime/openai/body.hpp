// runtime/openai/body.hpp: reads the fields of a request body. A field of the wrong type is an Error that names the
// field, its value and the expected type. Unknown fields are ignored (known_fields.hpp), because clients send many that
// this engine need not know. Fields that would change the answer, but are not supported, are refused
// (unserved_fields.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.hpp"
#include "sampling/params.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// Reads the fields of one JSON object. Used by one thread. Invariant: json_ is an object.
class Body {
 public:
  // REQUIRES: `json` outlives this object. Throws if it is not a JSON object; the Error calls it `name`.
  explicit Body(const nlohmann::json& json, const char* name = "body");

  // nullptr if the field is absent or null: clients write null for "use the default".
  const nlohmann::json* find(const char* name) const;
  const nlohmann::json& require(const char* name) const;

  std::optional<double> number(const char* name) const;
  std::optional<std::int64_t> integer(const char* name, std::int64_t low, std::int64_t high) const;
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::string> string(const char* name) const;
  std::vector<std::int32_t> token_ids(const char* name) const;  // empty when absent

 private:
  const nlohmann::json& json_;
};

// Throws "<name>: expected <what>, got <value, shortened>".
[[noreturn]] void fail_type(const std::string& name, const char* what, const nlohmann::json& got);

// Reads a list of token ids. Errors call it `where`.
std::vector<std::int32_t> read_token_ids(const nlohmann::json& json, const std::string& where);

// Reads text or token ids. With `add_special_tokens`, text gets the tokens that the tokenizer's post-processor adds.
std::vector<std::int32_t> read_tokens(const nlohmann::json& json, const std::string& where, const Tokenizer& tokenizer,
                                      bool add_special_tokens);

// Guided choices in the form of a body.
nlohmann::json choices_json(const std::vector<GuidedChoice>& choices);

// Throws unless `role` is one of OpenAI's message roles. The chat template decides which of them the model accepts.
void check_role(const std::optional<std::string>& role);

// Throws if a body asks for more choices or completions (`of_what`) than one body may: each is a sequence of the
// engine.
void check_count(std::size_t count, const std::string& of_what);

// The same for the choices of `num_prompts` prompts, since each prompt's request has a copy of the parameters.
void check_amount(std::size_t num_prompts, const SamplingParams& params);

// The number of sequences that a valid body for `url` creates.
std::size_t num_sequences(const std::string& url, const nlohmann::json& body);

// The most log probabilities of one answer. With its token's text, one takes about 70 bytes of the answer, rarely a few
// hundred. So the answer fits into memory, and nearly always into a line of a file (jsonl/output_lines.hpp). One answer
// of 131,072 tokens with all alternatives is below the limit.
inline constexpr std::size_t kMaxLogprobs = 3'000'000;

// Throws an Error if the log probabilities would make an answer too large for memory or for a line.
void check_logprobs(std::size_t num_choices, std::size_t num_tokens, std::int32_t num_alternatives);

// Reads `priority`, `group` (requests with one text here share a prefix) and `speculation` (the proposer for this
// request).
void read_scheduling(const Body& body, Request& request);

// Reads `speculation`: {"proposer": name or "none", "max_tokens": most drafts per step}, both optional.
SpeculationChoice read_speculation(const nlohmann::json& json);

// Reads the sampling fields of completions and chat; absent fields are taken from `defaults`. With guided `choices`, an
// absent max_tokens is the length of the longest choice.
SamplingParams read_sampling(const Body& body, SamplingParams defaults);

}  // namespace mortise
