// prediction: measures an answer whose tokens the caller predicts, correctly or not, relative to the prefill of as many
// tokens, and to the answer without a prediction. The prefix cache is off (bench.cpp), because each request ran before
// to find out its answer.
#include <future>
#include <memory>
#include <random>

#include "bench_command/prefill_case.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

enum class Expected { kNothing, kRight, kResumed, kWrong };

std::vector<std::int32_t> answer_of(Engine& engine, Request request) {
  std::promise<std::vector<std::int32_t>> promise;
  engine.submit(
      std::move(request),
      [&promise](const Delta& delta) {
        std::vector<std::int32_t> ids;
        for (const TokenInfo& token : delta.tokens) ids.push_back(token.id);
        promise.set_value(std::move(ids));
      },
      News::kAtTheEnd);
  return promise.get_future().get();
}

Case answer_case(Subject& subject, const SequenceShape& shape, Expected expected, const char* name) {
  Case out;
  out.name = fmt::format("{}, {} after {}", name, shape.output, shape.prompt);
  out.unit = "tokens/s";
  out.run = [&subject, shape, expected](std::uint32_t seed) {
    const std::int32_t vocab_size = subject.assembly().dims().vocab_size;
    Request request = make_requests({shape}, vocab_size, seed).front();
    if (expected == Expected::kRight || expected == Expected::kResumed) {
      request.prediction = answer_of(subject.engine(), request);
    } else if (expected == Expected::kWrong) {
      request.prediction = make_requests({{shape.output, 1, 0}}, vocab_size, ~seed).front().prompt;
    }
    request.resumed = expected == Expected::kResumed;
    const LoadResult result = run_load(subject.engine(), {std::move(request)});
    return Outcome{static_cast<double>(shape.prompt + shape.output) / result.end_s, ""};
  };
  return out;
}

}  // namespace

Scenario prediction_scenario(Subject& subject, const Sizes& sizes) {
  const SequenceShape shape = sequence_of(subject, sizes, 64, sizes.output.value_or(500));
  Scenario scenario{"prediction", {}, {}, subject.make_probes()};
  scenario.cases = {prefill_case(subject, 1, shape.prompt + shape.output, /*score=*/false),
                    answer_case(subject, shape, Expected::kRight, "right prediction"),
                    answer_case(subject, shape, Expected::kResumed, "resumed"),
                    answer_case(subject, shape, Expected::kNothing, "no prediction"),
                    answer_case(subject, shape, Expected::kWrong, "wrong prediction")};
  scenario.relations = {
      {"right prediction over prefill", 0, 1}, {"resumed over prefill", 0, 2}, {"wrong prediction over none", 3, 4}};
  return scenario;
}

}  // namespace mortise::bench
