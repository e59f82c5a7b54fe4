// runtime/openai/decision_questions.hpp: reads a body of /v1/decisions: questions about one input, each with the values
// that its answer may have. Internal to this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mortise {

struct DecisionOption {
  nlohmann::ordered_json value;  // a text or a boolean; for a level of a score, its label
  std::string text;              // the text that the model writes for it
};

struct DecisionQuestion {
  enum class Type { kPredicate, kChoice, kScore } type = Type::kPredicate;
  nlohmann::ordered_json name;          // a text or null
  std::string text;                     // the model reads it after the input: instructions, options, how to answer
  std::vector<DecisionOption> options;  // at least two with distinct texts; for a predicate Yes and No
};

// Reads `questions`. Throws an Error that names the question and the field.
std::vector<DecisionQuestion> read_decision_questions(const nlohmann::json& json);

// Reads `input`, a text or a list of messages, as messages for a chat template. Throws an Error that names the item.
nlohmann::json read_decision_input(const nlohmann::json& json);

// Appends a question to the input: to the last message if it is the user's, since many templates refuse two user
// messages in a row; otherwise as a message of its own.
nlohmann::json ask_question(nlohmann::json messages, const DecisionQuestion& question);

}  // namespace mortise
