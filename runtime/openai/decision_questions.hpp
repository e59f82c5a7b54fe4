// runtime/openai/decision_questions.hpp: what a body of /v1/decisions asks: questions about one input, each with the
// values that its answer may have. Internal to this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mortise {

struct DecisionOption {
  nlohmann::ordered_json value;  // a text or a boolean; of a score's level its label
  std::string text;              // what the model is asked to write
};

struct DecisionQuestion {
  enum class Type { kPredicate, kChoice, kScore } type = Type::kPredicate;
  nlohmann::ordered_json name;          // a text, or null
  std::string text;                     // what the model reads behind the input: instructions, options, how to answer
  std::vector<DecisionOption> options;  // at least two, their texts distinct; a predicate's are Yes and No
};

// `questions`. Throws an Error that names the question and the field.
std::vector<DecisionQuestion> read_decision_questions(const nlohmann::json& json);

// `input`, a text or a list of messages, as messages for a chat template. Throws an Error that names the item.
nlohmann::json read_decision_input(const nlohmann::json& json);

// The input with a question behind it: at the end of the last message when that is the user's (many templates refuse
// two of a user's messages in a row), else as a message of its own.
nlohmann::json ask_question(nlohmann::json messages, const DecisionQuestion& question);

}  // namespace mortise
