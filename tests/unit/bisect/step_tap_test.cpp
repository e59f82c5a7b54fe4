// An engine over fake parts, seen through a tap: the tap changes no token, and a row's hashes depend on the row alone.
#include "bisect/step_tap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "bisect/first_difference.hpp"
#include "engine_fixture.hpp"

namespace mortise::test {
namespace {

using Tokens = std::vector<std::int32_t>;

struct Traced {
  std::unique_ptr<RowTrace> trace;
  std::vector<Tokens> sequences;

  TraceView view() const { return {*trace, sequences}; }
};

// The fake device leaves maxima and sums as they are; a device writes them.
Parts parts_of(FakeWorld& world) {
  static const mortise_device_table own = *world.parts().device.api;
  static const mortise_device_table table = [] {
    mortise_device_table value = own;
    value.head_reduce = [](mortise_device* device, mortise_stream* stream, const mortise_head_reduce_args* args,
                           mortise_error* error) {
      for (float* array : {args->max, args->sum}) {
        if (array != nullptr) std::fill_n(array, args->logits->shape[0], 1.0f);
      }
      return own.head_reduce(device, stream, args, error);
    };
    return value;
  }();
  Parts parts = world.parts();
  parts.device.api = &table;
  return parts;
}

// Runs the requests and traces requests[traced], which has one choice.
Traced run(FakeWorld& world, const std::vector<Request>& requests, std::size_t traced) {
  Traced result;
  result.trace = std::make_unique<RowTrace>(traced + 1, 1);
  StepTap tap(parts_of(world), *result.trace);
  std::vector<Collector> collectors(requests.size());
  {
    Engine engine(tap.parts(), world.limits, ModelInfo{kVocab, {}}, tokenizer());
    for (std::size_t i = 0; i < requests.size(); ++i) engine.submit(requests[i], collectors[i].sink());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Tokens ids = collectors[i].wait().at(0).ids();
      EXPECT_EQ(ids, expected(requests[i].prompt, static_cast<std::int32_t>(ids.size())));
      if (i != traced) continue;
      Tokens& all = result.sequences.emplace_back(requests[i].prompt);
      all.insert(all.end(), ids.begin(), ids.end());
    }
  }
  return result;
}

Request scored(Tokens prompt, std::int32_t max_tokens) {
  Request request = greedy(std::move(prompt), max_tokens);
  request.logprobs = 2;
  request.score_from = 1;
  return request;
}

TEST(StepTap, RowsAreTheSameInOtherStepsAndOtherCompany) {
  const Request request = scored({1, 2, 3, 4, 5, 6, 7, 8, 9}, 6);
  FakeWorld alone(small_limits());
  const Traced a = run(alone, {request}, 0);
  EngineLimits limits = small_limits();
  limits.max_batched_tokens = 5;
  limits.max_drafts = 2;
  FakeWorld crowd(limits);
  // Drafts of which some are right: their rows are the sequence's, the others' are not.
  const Tokens right = expected(request.prompt, 6);
  int calls = 0;
  crowd.propose = [&](std::uint64_t, std::int32_t max) {
    Tokens drafts = {right[static_cast<std::size_t>(++calls) % 6], 3};
    drafts.resize(static_cast<std::size_t>(std::min(max, 2)));
    return drafts;
  };
  const Traced b = run(crowd, {greedy({4, 4}, 8), request, greedy({9, 8, 7}, 5)}, 1);
  const TraceComparison result = compare_traces(a.view(), b.view());
  EXPECT_FALSE(result.first) << result.first->where;
  EXPECT_EQ(result.num_rows, 14u);  // the last token is never an input
  // Each row: hidden rows and logits; what is drawn or scored from all of them.
  EXPECT_GE(result.num_compared, 14u * 3);
}

TEST(StepTap, AWrongRowOfTheModelIsFoundWhereItIs) {
  const Request request = scored({1, 2, 3, 4, 5}, 6);
  FakeWorld right(small_limits());
  const Traced a = run(right, {request}, 0);
  FakeWorld wrong(small_limits());
  Parts parts = parts_of(wrong);
  static const mortise_model_table* own = nullptr;
  own = parts.model.api;
  mortise_model_table table = *own;
  table.head = [](mortise_model* model, const mortise_step* step, const mortise_tensor* hidden, std::int32_t begin,
                  std::int32_t end, const mortise_tensor* logits, mortise_error* error) {
    const mortise_status status = own->head(model, step, hidden, begin, end, logits, error);
    // The first of a decode's logits: too small to be drawn.
    if (step->batch->positions[0] == 7) static_cast<float*>(logits->data)[0] = -1e30f;
    return status;
  };
  parts.model.api = &table;
  Traced b;
  b.trace = std::make_unique<RowTrace>(1, 1);
  StepTap tap(parts, *b.trace);
  Collector collector;
  Engine engine(tap.parts(), wrong.limits, ModelInfo{kVocab, {}}, tokenizer());
  engine.submit(request, collector.sink());
  b.sequences = {request.prompt};
  for (const std::int32_t id : collector.wait().at(0).ids()) b.sequences[0].push_back(id);
  const TraceComparison result = compare_traces(a.view(), b.view());
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->position, 7);
  EXPECT_EQ(result.first->op.key, "head of tokens 0 to 97");
}

TEST(StepTap, AFailedCopyIsTheFailureOfTheCall) {
  FakeWorld world(small_limits());
  Parts parts = world.parts();
  mortise_device_table table = *parts.device.api;
  table.copy = [](mortise_device*, mortise_stream*, void*, const void*, std::uint64_t, mortise_error* error) {
    error->code = MORTISE_UNAVAILABLE;
    std::snprintf(error->message, sizeof error->message, "the bus is gone");
    return mortise_status{MORTISE_UNAVAILABLE};
  };
  parts.device.api = &table;
  RowTrace trace(1, 1);
  StepTap tap(parts, trace);
  Collector collector;
  Engine engine(tap.parts(), world.limits, ModelInfo{kVocab, {}}, tokenizer());
  engine.submit(greedy({1, 2}, 2), collector.sink());
  const Delta last = collector.wait().at(0).last;
  EXPECT_EQ(last.finish, FinishReason::kError);
  EXPECT_THAT(last.error, testing::HasSubstr("the bus is gone"));
}

}  // namespace
}  // namespace mortise::test
