#include "openai/decision_questions.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "openai/body.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;

// OpenAI's limits.
constexpr std::size_t kMaxQuestions = 400, kMaxOptions = 255;

std::string part_text(const Json& part, const char* name) {
  const Body fields(part, name);
  const std::string type = fields.string("type").value_or("");
  if (type == "input_text" || type == "output_text") return fields.string("text").value_or("");
  if (type == "refusal") return fields.string("refusal").value_or("");
  if (type == "input_json") return fields.require("data").dump(-1, ' ', false, Json::error_handler_t::replace);
  fail("{}: a part of type {} is not supported; use input_text or input_json", name, quote(type));
}

// Reads a text, or parts, which are joined.
std::string read_text(const Json& json, const char* name) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array() || json.empty()) fail_type(name, "a text, or a list of parts", json);
  std::string text;
  for (const Json& part : json) text += part_text(part, name);
  return text;
}

std::string option_line(const std::string& text, const Body& option) {
  const auto description = option.string("description");
  return description && !description->empty() ? "- " + text + ": " + *description + "\n" : "- " + text + "\n";
}

// Calls `read` and puts the place in front of the texts of its Errors.
template <class Read>
auto at_place(const std::string& where, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", where, error.what());
  }
}

DecisionOption read_option(const Json& json, const char* value_field, bool may_be_flag) {
  const Json& value = Body(json, "the option").require(value_field);
  if (!value.is_string() && !(may_be_flag && value.is_boolean())) fail_type(value_field, "a text", value);
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.empty()) fail("{} is empty; list what the model may answer", value_field);
  return {value, text};
}

// Fills in the options, and returns the lines that list them for the model.
std::string read_options(const Json& list, const char* name, const char* value_field, DecisionQuestion& question) {
  if (!list.is_array() || list.size() < 2 || list.size() > kMaxOptions) {
    fail_type(name, "a list of 2 to 255 objects", list);
  }
  std::set<std::string> texts;
  std::string lines;
  for (std::size_t i = 0; i < list.size(); ++i) {
    lines += at_place(fmt::format("{}[{}]", name, i), [&] {
      DecisionOption option = read_option(list[i], value_field, question.type == DecisionQuestion::Type::kChoice);
      if (!texts.insert(option.text).second) {
        fail("{} is there already; the model could not tell two equal values apart", quote(option.text));
      }
      question.options.push_back(option);
      return option_line(option.text, Body(list[i]));
    });
  }
  return lines;
}

DecisionQuestion read_question(const Json& json) {
  const Body fields(json, "the question");
  DecisionQuestion question;
  if (const auto name = fields.string("name")) question.name = *name;
  const std::string instructions = read_text(fields.require("instructions"), "instructions");
  const std::string type = fields.string("type").value_or("");
  if (type == "predicate") {
    question.options = {{"Yes", "Yes"}, {"No", "No"}};
    question.text = instructions + "\n\nIs this true? Answer with Yes or No only.";
  } else if (type == "choice") {
    question.type = DecisionQuestion::Type::kChoice;
    const std::string lines = read_options(fields.require("choices"), "choices", "value", question);
    question.text = instructions + "\n\nChoices:\n" + lines + "\nAnswer with one of the choices only.";
  } else if (type == "score") {
    question.type = DecisionQuestion::Type::kScore;
    const std::string lines = read_options(fields.require("levels"), "levels", "label", question);
    question.text = instructions + "\n\nLevels, from the lowest to the highest:\n" + lines +
                    "\nAnswer with one of the levels only.";
  } else {
    fail("type {} is not one of predicate, choice, score", quote(type));
  }
  return question;
}

Json read_message(const Json& item) {
  const Body fields(item, "the item");
  const std::string type = fields.string("type").value_or("message");
  if (type != "message") {
    fail("an item of type {} is not supported; write its content into a message", quote(type));
  }
  check_role(fields.string("role"));
  return {{"role", item.at("role")}, {"content", read_text(fields.require("content"), "content")}};
}

}  // namespace

std::vector<DecisionQuestion> read_decision_questions(const Json& json) {
  if (!json.is_array() || json.empty() || json.size() > kMaxQuestions) {
    fail_type("questions", "a list of 1 to 400 questions", json);
  }
  std::vector<DecisionQuestion> questions;
  for (std::size_t i = 0; i < json.size(); ++i) {
    questions.push_back(at_place(fmt::format("questions[{}]", i), [&] { return read_question(json[i]); }));
  }
  return questions;
}

Json read_decision_input(const Json& json) {
  if (json.is_string()) return Json::array({{{"role", "user"}, {"content", json}}});
  if (!json.is_array() || json.empty()) fail_type("input", "a text, or a list of messages", json);
  Json messages = Json::array();
  for (std::size_t i = 0; i < json.size(); ++i) {
    messages.push_back(at_place(fmt::format("input[{}]", i), [&] { return read_message(json[i]); }));
  }
  return messages;
}

Json ask_question(Json messages, const DecisionQuestion& question) {
  Json& last = messages.back();
  if (last.at("role") == "user") {
    last["content"] = last.at("content").get<std::string>() + "\n\n" + question.text;
  } else {
    messages.push_back({{"role", "user"}, {"content", question.text}});
  }
  return messages;
}

}  // namespace mortise
