#include "openai/decision_questions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;

std::string refusal(const char* questions) {
  try {
    read_decision_questions(Json::parse(questions));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string input_refusal(const char* input) {
  try {
    read_decision_input(Json::parse(input));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(DecisionQuestions, EachTypeSaysHowToAnswer) {
  const auto questions = read_decision_questions(Json::parse(R"([
      {"type": "predicate", "instructions": "It rains."},
      {"type": "choice", "name": "topic", "instructions": [{"type": "input_text", "text": "Which "},
                                                           {"type": "input_text", "text": "topic?"}],
       "choices": [{"value": "bill"}, {"value": true, "description": "all is well"}]},
      {"type": "score", "instructions": "How good?", "levels": [{"label": "bad"}, {"label": "good"}]}])"));
  ASSERT_EQ(questions.size(), 3u);
  EXPECT_EQ(questions[0].text, "It rains.\n\nIs this true? Answer with Yes or No only.");
  EXPECT_TRUE(questions[0].name.is_null());
  EXPECT_EQ(questions[1].text,
            "Which topic?\n\nChoices:\n- bill\n- true: all is well\n\nAnswer with one of the choices only.");
  EXPECT_EQ(questions[1].name, "topic");
  EXPECT_EQ(questions[1].options[1].value, true);  // "true": the client could not tell it from a text
  EXPECT_EQ(questions[1].options[1].text, "true");
  EXPECT_EQ(
      questions[2].text,
      "How good?\n\nLevels, from the lowest to the highest:\n- bad\n- good\n\nAnswer with one of the levels only.");
}

TEST(DecisionQuestions, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_EQ(refusal("[]"), "questions: expected a list of 1 to 400 questions, got []");
  EXPECT_EQ(refusal(R"([{"type": "predicate"}])"), "questions[0]: instructions is missing");
  EXPECT_EQ(refusal(R"([{"type": "guess", "instructions": "x"}])"),
            "questions[0]: type 'guess' is not one of predicate, choice, score");
  EXPECT_EQ(refusal(R"([{"type": "choice", "instructions": "x", "choices": [{"value": "a"}]}])"),
            "questions[0]: choices: expected a list of 2 to 255 objects, got [{\"value\":\"a\"}]");
  EXPECT_EQ(refusal(R"([{"type": "choice", "instructions": "x", "choices": [{"value": "true"}, {"value": true}]}])"),
            "questions[0]: choices[1]: 'true' is there already; the model could not tell two equal values apart");
  EXPECT_EQ(refusal(R"([{"type": "score", "instructions": "x", "levels": [{"label": true}, {"label": "b"}]}])"),
            "questions[0]: levels[0]: label: expected a text, got true");
  EXPECT_EQ(refusal(R"([{"type": "score", "instructions": "x", "levels": [{"label": "a"}, {"label": ""}]}])"),
            "questions[0]: levels[1]: label is empty; list what the model may answer");
  EXPECT_EQ(refusal(R"([{"type": "predicate", "instructions": [{"type": "input_image", "image_url": "x"}]}])"),
            "questions[0]: instructions: a part of type 'input_image' is not supported; use input_text or input_json");
  EXPECT_EQ(refusal(R"([{"type": "predicate", "instructions": 7}])"),
            "questions[0]: instructions: expected a text, or a list of parts, got 7");
}

TEST(DecisionInput, IsATextOrMessages) {
  EXPECT_EQ(read_decision_input("Hi"), Json::parse(R"([{"role": "user", "content": "Hi"}])"));
  const Json messages = read_decision_input(Json::parse(R"([
      {"role": "user", "content": [{"type": "input_json", "data": {"a": 1}}]},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}])"));
  EXPECT_EQ(messages, Json::parse(R"([{"role": "user", "content": "{\"a\":1}"},
                                      {"role": "assistant", "content": "Yes."}])"));
  EXPECT_EQ(input_refusal("[]"), "input: expected a text, or a list of messages, got []");
  EXPECT_EQ(input_refusal(R"([{"type": "function_call", "name": "f"}])"),
            "input[0]: an item of type 'function_call' is not supported; write its content into a message");
  EXPECT_EQ(input_refusal(R"([{"role": "user", "content": "a"}, {"role": "wizard", "content": "b"}])"),
            "input[1]: messages: role 'wizard' is not one of system, developer, user, assistant, tool, function");
}

TEST(DecisionInput, AQuestionJoinsTheUsersLastMessage) {
  DecisionQuestion question;
  question.text = "Why?";
  Json messages = read_decision_input("Hi");
  EXPECT_EQ(ask_question(messages, question), Json::parse(R"([{"role": "user", "content": "Hi\n\nWhy?"}])"));
  messages.push_back({{"role", "assistant"}, {"content", "Yes."}});
  EXPECT_EQ(ask_question(messages, question).size(), 3u);  // 2: the model would have asked the question itself
}

}  // namespace
}  // namespace mortise
