// runtime/openai/unserved_fields.hpp: fields of other servers that would change the answer, but are not supported here.
// Ignoring them silently would give a wrong answer, so they are refused by name.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace mortise {

// One bit per url, so that a field can belong to several urls.
enum BodyUrl : unsigned { kCompletions = 1, kChat = 2, kScore = 4, kDecisions = 8, kGenerating = kCompletions | kChat };

// Returns the bit of a url; 0 for any other url.
unsigned body_url(std::string_view url);

struct UnservedField {
  const char* name;
  unsigned urls;
  // Whether this value leaves the answer as it would be without the field.
  bool (*is_harmless)(const nlohmann::json& value, const nlohmann::json& body);
  const char* message;  // text after the field's name
};

// Returns all such fields: OpenAI's, vLLM's, and the samplers of llama.cpp and its relatives.
std::span<const UnservedField> unserved_fields();

// Throws an Error that names the first such field whose value would change the answer. Null is always harmless.
// REQUIRES: `body` is an object.
void refuse_unserved_fields(std::string_view url, const nlohmann::json& body);

}  // namespace mortise
