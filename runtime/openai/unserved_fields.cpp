#include "openai/unserved_fields.hpp"

#include "error.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;

bool never(const Json&, const Json&) {
  return false;
}
bool when_false(const Json& value, const Json&) {
  return value == false;
}
bool when_empty(const Json& value, const Json&) {
  return value == "" || (value.is_structured() && value.empty());
}
bool when_0(const Json& value, const Json&) {
  return value == 0;
}
bool when_1(const Json& value, const Json&) {
  return value == 1;
}
bool when_negative(const Json& value, const Json&) {
  return value.is_number() && value < 0;
}
bool without_tools(const Json& value, const Json&) {
  return value == "none" || value == "auto";
}
bool when_text(const Json& value, const Json&) {
  return value == Json::array() || value == Json({"text"});
}
// Whether the value has no effect: it applies to special tokens, and skip_special_tokens removes those from the text.
bool without_special_tokens(const Json& value, const Json& body) {
  return value == true || body.value("skip_special_tokens", Json(true)) != false;
}

constexpr const char* kTools =
    "is not supported: this engine calls no tools; describe them in a message, or leave them out";
constexpr const char* kGuide = "is not supported; leave it out, or list all possible answers in 'choices'";
constexpr const char* kWords =
    "is not supported; ban single tokens with logit_bias, or end the answer before a text with stop";
constexpr const char* kLogits = "is not supported: requests cannot bring code; use logit_bias and the penalties";
constexpr const char* kTemplate = "is not supported: chats are rendered by the pipeline's own template";
constexpr const char* kAdapter = "is not supported: a pipeline has no adapters; merge it into the checkpoint's weights";
constexpr const char* kSampler =
    "is not supported; the samplers are temperature, top_k, top_p, min_p and the three penalties";
constexpr const char* kTruncate = "is not supported; shorten the prompt before you send it";
constexpr const char* kStop =
    "is not supported: the answer ends before its stop string; add the stop string to the text";
constexpr const char* kModality = "is not supported: answers are text";

constexpr UnservedField kFields[] = {
    {"tools", kChat, when_empty, kTools},
    {"tool_choice", kChat, without_tools, kTools},
    {"functions", kChat, when_empty, kTools},
    {"function_call", kChat, without_tools, kTools},
    {"web_search_options", kChat, never, kTools},
    {"modalities", kChat, when_text, kModality},
    {"audio", kChat, never, kModality},
    {"echo", kChat, when_false, "is not supported in chats; use /v1/completions"},
    {"best_of", kChat, when_1, "is not supported in chats; use n and choose, or /v1/completions"},
    {"chat_template", kChat, never, kTemplate},
    {"documents", kChat, when_empty, kTemplate},
    {"guided_json", kGenerating, never, kGuide},
    {"guided_regex", kGenerating, never, kGuide},
    {"guided_grammar", kGenerating, never, kGuide},
    {"guided_json_object", kGenerating, when_false, kGuide},
    {"structural_tag", kGenerating, never, kGuide},
    {"grammar", kGenerating, when_empty, kGuide},
    {"json_schema", kGenerating, when_empty, kGuide},
    {"regex", kGenerating, when_empty, kGuide},
    {"ebnf", kGenerating, when_empty, kGuide},
    {"bad_words", kGenerating, when_empty, kWords},
    {"allowed_token_ids", kGenerating, never, kGuide},
    {"logits_processors", kGenerating, when_empty, kLogits},
    {"logit_processors", kGenerating, when_empty, kLogits},
    {"custom_logit_processor", kGenerating, never, kLogits},
    {"prompt_logprobs", kGenerating, when_false,
     "is not supported; use /v1/completions with echo and logprobs, or /v1/score"},
    {"logprob_token_ids", kGenerating, when_empty,
     "is not supported; choice_logprobs and /v1/score give the log probabilities of given texts"},
    {"use_beam_search", kGenerating, when_false, "is not supported; use best_of of /v1/completions"},
    {"watermarking", kGenerating, when_false, "is not supported"},
    {"repetition_detection", kGenerating, never, "is not supported; use the penalties and stop"},
    {"thinking_token_budget", kGenerating, when_negative, "is not supported; limit the answer with max_tokens"},
    {"include_stop_str_in_output", kGenerating, when_false, kStop},
    {"no_stop_trim", kGenerating, when_false, kStop},  // SGLang's name for it, which vllm-router sends
    {"return_hidden_states", kGenerating, when_false, "is not supported"},
    {"spaces_between_special_tokens", kGenerating, without_special_tokens,
     "is not supported: the text is what the tokenizer writes"},
    {"truncate_prompt_tokens", kGenerating | kScore, never, kTruncate},
    {"prompt_embeds", kCompletions, never, "is not supported; give the prompt as text or token ids"},
    {"lora", kGenerating, when_empty, kAdapter},
    {"lora_name", kGenerating, when_empty, kAdapter},
    {"lora_path", kGenerating, when_empty, kAdapter},
    {"lora_request", kGenerating, when_empty, kAdapter},
    {"adapter_id", kGenerating, when_empty, kAdapter},
    {"typical_p", kGenerating, when_1, kSampler},
    {"tfs_z", kGenerating, when_1, kSampler},
    {"top_a", kGenerating, when_0, kSampler},
    {"epsilon_cutoff", kGenerating, when_0, kSampler},
    {"eta_cutoff", kGenerating, when_0, kSampler},
    {"mirostat", kGenerating, when_0, kSampler},
    {"mirostat_mode", kGenerating, when_0, kSampler},
    {"dynatemp_range", kGenerating, when_0, kSampler},
    {"smoothing_factor", kGenerating, when_0, kSampler},
    {"xtc_probability", kGenerating, when_0, kSampler},
    {"dry_multiplier", kGenerating, when_0, kSampler},
    {"no_repeat_ngram_size", kGenerating, when_0, kSampler},
    {"repeat_penalty", kGenerating, when_1, "is called repetition_penalty here"},
    {"n_predict", kGenerating, when_negative, "is called max_tokens here"},
    {"max_new_tokens", kGenerating, never, "is called max_tokens here"},
};

}  // namespace

unsigned body_url(std::string_view url) {
  if (url == "/v1/completions") return kCompletions;
  if (url == "/v1/chat/completions") return kChat;
  if (url == "/v1/score") return kScore;
  return url == "/v1/decisions" ? static_cast<unsigned>(kDecisions) : 0;
}

std::span<const UnservedField> unserved_fields() {
  return kFields;
}

void refuse_unserved_fields(std::string_view url, const Json& body) {
  const unsigned asked = body_url(url);
  for (const UnservedField& field : kFields) {
    if ((field.urls & asked) == 0) continue;
    const auto value = body.find(field.name);
    if (value == body.end() || value->is_null() || field.is_harmless(*value, body)) continue;
    fail("{} {}", field.name, field.message);
  }
}

}  // namespace mortise
