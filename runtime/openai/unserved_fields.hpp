// runtime/openai/unserved_fields.hpp: the fields of other servers' bodies that would change an answer and that this one
// does not serve. To leave them out in silence would answer another question, so they are refused by name.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace mortise {

// One bit a url, for fields that several have.
enum BodyUrl : unsigned { kCompletions = 1, kChat = 2, kScore = 4, kDecisions = 8, kGenerating = kCompletions | kChat };

// 0 for a url that is none of these.
unsigned body_url(std::string_view url);

struct UnservedField {
  const char* name;
  unsigned urls;
  // Whether the answer is the same as without the field.
  bool (*is_harmless)(const nlohmann::json& value, const nlohmann::json& body);
  const char* message;  // follows the field's name
};

// The whole table: OpenAI's fields, vLLM's, and the samplers of llama.cpp and its relatives.
std::span<const UnservedField> unserved_fields();

// Throws an Error that names the first such field whose value would change the answer. Null is harmless everywhere.
// REQUIRES: `body` is an object.
void refuse_unserved_fields(std::string_view url, const nlohmann::json& body);

}  // namespace mortise
