// runtime/openai/body.hpp: reads the fields of a request body. A field of the wrong type is an Error that names the
// field, what it has and what was expected; an unknown field is ignored (known_fields.hpp), because clients
// send many that this engine need not know, and one that it does not serve is refused (unserved_fields.hpp).
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

class Body {
 public:
  // REQUIRES: `json` outlives this. Throws when it is no object; `name` is what it is called then.
  explicit Body(const nlohmann::json& json, const char* name = "body");

  // nullptr when the field is absent or null: clients write null for "my default".
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

// A list of token ids, as `where` in errors.
std::vector<std::int32_t> read_token_ids(const nlohmann::json& json, const std::string& where);

// Text or token ids. Text gets what the tokenizer's post-processor adds when `add_special_tokens`.
std::vector<std::int32_t> read_tokens(const nlohmann::json& json, const std::string& where, const Tokenizer& tokenizer,
                                      bool add_special_tokens);

// Guided choices as a body writes them.
nlohmann::json choices_json(const std::vector<GuidedChoice>& choices);

// Throws unless it is a role of OpenAI's messages. Which of them a model knows, its chat template decides.
void check_role(const std::optional<std::string>& role);

// Throws when a body asks for more of something, choices or completions, than one body may: each is a sequence of the
// engine.
void check_count(std::size_t count, const std::string& of_what);

// The same for the choices of so many prompts, whose requests each have a copy of the parameters.
void check_amount(std::size_t num_prompts, const SamplingParams& params);

// How many sequences a body for `url` keeps busy, if it is right.
std::size_t num_sequences(const std::string& url, const nlohmann::json& body);

// Log probabilities of one answer. One with its token's text takes some 70 bytes of it, at most a few hundred: memory
// holds the answer, and a line of a file (jsonl/output_lines.hpp) nearly always. One answer of 131,072 tokens with all
// alternatives is below it.
inline constexpr std::size_t kMaxLogprobs = 3'000'000;

// Throws when so many log probabilities would make an answer that neither memory nor a line can hold.
void check_logprobs(std::size_t num_choices, std::size_t num_tokens, std::int32_t num_alternatives);

// `priority`; `group`: requests of one text share a prefix (design: prefix groups); `speculation`: who drafts for it.
void read_scheduling(const Body& body, Request& request);

// A request's `speculation`: {"proposer": name or "none", "max_tokens": drafts a step at most}, both optional.
SpeculationChoice read_speculation(const nlohmann::json& json);

// The sampling fields of completions and chat; `defaults` are what absent fields mean. Guided by `choices`, an absent
// max_tokens is as many as they need.
SamplingParams read_sampling(const Body& body, SamplingParams defaults);

}  // namespace mortise
