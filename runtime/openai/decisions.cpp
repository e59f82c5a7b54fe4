// POST /v1/decisions: the probability of each value that the answer to a question may have. The log probability of a
// value is that of its tokens after the rendered chat, exactly as /v1/score gives it. The values of a question are
// then normalised: each probability is conditional on the answer being one of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "error.hpp"
#include "openai/answers.hpp"
#include "openai/body.hpp"
#include "openai/decision_questions.hpp"
#include "openai/service.hpp"

namespace mortise {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A value to score: the index of its question, and its tokens.
struct ScoredValue {
  std::size_t question = 0;
  std::vector<std::int32_t> tokens;
};

struct DecisionWork {
  std::vector<DecisionQuestion> questions;
  std::vector<Request> prompts;  // one per question
  std::vector<ScoredValue> values;
};

bool begins_another(const std::vector<std::int32_t>& tokens, const std::vector<std::vector<std::int32_t>>& all) {
  return std::any_of(all.begin(), all.end(), [&](const std::vector<std::int32_t>& other) {
    return other.size() > tokens.size() && std::equal(tokens.begin(), tokens.end(), other.begin());
  });
}

// If the tokens of one value begin another value's tokens, its probability would include the other's. An end token
// after each value of the question prevents that.
void separate(std::vector<std::vector<std::int32_t>>& all, const Tokenizer& tokenizer, std::size_t question) {
  if (std::none_of(all.begin(), all.end(), [&](const auto& tokens) { return begins_another(tokens, all); })) return;
  const auto end = tokenizer.eos_id();
  if (!end) {
    fail(
        "questions[{}]: one of the values begins another, and the tokenizer has no end token that could tell them "
        "apart; reword them so that none begins another",
        question);
  }
  for (std::vector<std::int32_t>& tokens : all) tokens.push_back(*end);
}

// The tokens of the question's values after its prompt, as guided generation uses them.
std::vector<std::vector<std::int32_t>> value_tokens(const Engine& engine, Request guided,
                                                    const DecisionQuestion& question, std::size_t index) {
  for (const DecisionOption& option : question.options) guided.sampling.choices.emplace_back(option.text);
  guided.sampling.max_tokens = std::numeric_limits<std::int32_t>::max();
  try {
    return engine.choice_tokens(guided);
  } catch (const Error& error) {
    fail(error.code(), "questions[{}]: {}", index, error.what());
  }
}

Request make_request(const DecisionWork& work, std::size_t index) {
  const ScoredValue& value = work.values[index];
  Request request = work.prompts[value.question];
  request.prompt.insert(request.prompt.end(), value.tokens.begin(), value.tokens.end());
  return request;
}

// exp(logprob) of each value, divided by the sum over all values.
std::vector<double> normalised(const std::vector<double>& logprobs) {
  const double most = *std::max_element(logprobs.begin(), logprobs.end());
  std::vector<double> result;
  double sum = 0;
  for (const double logprob : logprobs) sum += result.emplace_back(std::exp(logprob - most));
  for (double& value : result) value /= sum;
  return result;
}

OrderedJson answer_json(const DecisionQuestion& question, const std::vector<double>& probabilities) {
  using Type = DecisionQuestion::Type;
  const auto best = std::max_element(probabilities.begin(), probabilities.end());
  if (question.type == Type::kPredicate) {
    return {{"type", "predicate"}, {"name", question.name}, {"probability", probabilities.front()}};
  }
  OrderedJson list = OrderedJson::array();
  double mean = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const OrderedJson& value = question.options[i].value;
    mean += static_cast<double>(i) * probabilities[i];
    list.push_back(question.type == Type::kChoice
                       ? OrderedJson{{"value", value}, {"probability", probabilities[i]}}
                       : OrderedJson{{"label", value}, {"value", i}, {"probability", probabilities[i]}});
  }
  if (question.type == Type::kChoice) {
    const auto index = static_cast<std::size_t>(best - probabilities.begin());
    return {{"type", "choice"},
            {"name", question.name},
            {"choice", question.options[index].value},
            {"confidence", *best},
            {"probabilities", std::move(list)}};
  }
  return {{"type", "score"},
          {"name", question.name},
          {"score", mean},
          {"confidence", *best},
          {"probabilities", std::move(list)}};
}

OrderedJson usage_of(const DecisionWork& work, const JobResult& result, const AnswerStamp& stamp) {
  std::size_t input = 0, cached = 0, value = 0;
  for (std::size_t i = 0; i < work.questions.size(); ++i) {
    const std::size_t num_prompt = work.prompts[i].prompt.size();
    input += num_prompt;
    // Only the first value counts; the others reuse the prompt that it computed.
    cached += std::min(num_prompt, static_cast<std::size_t>(result[value].front().usage.cached_tokens));
    value += work.questions[i].options.size();
  }
  OrderedJson usage = {{"input_tokens", input}};
  if (stamp.schedule_figures) {
    usage["input_tokens_details"] = {{"cached_tokens", cached}, {"cache_write_tokens", input - cached}};
  }
  usage["output_tokens"] = 0;  // nothing is generated
  usage["output_tokens_details"] = {{"reasoning_tokens", 0}};
  usage["total_tokens"] = input;
  return usage;
}

OrderedJson answers_of(const DecisionWork& work, const JobResult& result) {
  OrderedJson answers = OrderedJson::array();
  std::size_t value = 0;
  for (const DecisionQuestion& question : work.questions) {
    std::vector<double> logprobs;
    for (std::size_t i = 0; i < question.options.size(); ++i) {
      double& sum = logprobs.emplace_back(0);
      for (const TokenInfo& token : result[value].front().prompt) sum += finite_logprob(token.logprob);
      ++value;
    }
    answers.push_back(answer_json(question, normalised(logprobs)));
  }
  return answers;
}

}  // namespace

Abort Service::decide(const nlohmann::json& json, const AnswerStamp& stamp, std::function<void(Answer)> done) {
  const Body body(json);
  const auto work = std::make_shared<DecisionWork>();
  work->questions = read_decision_questions(body.require("questions"));
  const nlohmann::json input = read_decision_input(body.require("input"));
  std::size_t num_tokens = 0;
  for (std::size_t i = 0; i < work->questions.size(); ++i) {
    Request request;
    ChatInput chat;
    chat.messages = ask_question(input, work->questions[i]);
    request.prompt = chat_prompt(chat);
    request.sampling.max_tokens = 0;
    request.score_from = static_cast<std::int32_t>(request.prompt.size());
    stamp.put_on(request);
    read_scheduling(body, request);
    num_tokens += request.prompt.size();
    if (num_tokens > kMaxLogprobs) {
      fail("questions: the prompts of the first {} have {} tokens; at most {} are allowed in one body: send several",
           i + 1, num_tokens, kMaxLogprobs);
    }
    engine_.check(request);
    std::vector<std::vector<std::int32_t>> tokens = value_tokens(engine_, request, work->questions[i], i);
    separate(tokens, tokenizer_, i);
    work->prompts.push_back(std::move(request));
    for (std::vector<std::int32_t>& value : tokens) work->values.push_back({i, std::move(value)});
  }
  for (std::size_t i = 0; i < work->values.size(); ++i) {
    try {
      engine_.check(make_request(*work, i));
    } catch (const Error& error) {
      fail(error.code(), "questions[{}], with one of its values: {}", work->values[i].question, error.what());
    }
  }
  const auto make = [this, work, stamp](const JobResult& result) {
    return OrderedJson{{"answers", answers_of(*work, result)},
                       {"model", info_.model},
                       {"system_fingerprint", info_.system_fingerprint},
                       {"usage", usage_of(*work, result, stamp)}};
  };
  RequestSeries requests{work->values.size(), [work](std::size_t index) { return make_request(*work, index); }};
  return run_job(engine_, std::move(requests), kMaxOpenTokens,
                 [make, done = std::move(done)](const JobResult& result, const std::optional<Error>& error) {
                   done(make_answer(error, [&] { return make(result); }));
                 });
}

}  // namespace mortise
