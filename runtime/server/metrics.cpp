#include "server/metrics.hpp"

#include <prometheus/counter.h>

#include <chrono>

namespace mortise {
namespace {

using prometheus::Histogram;

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help, const std::string& model,
                     const Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({{"model_name", model}}, buckets);
}

// vLLM's buckets, and two smaller ones for small models.
const Histogram::BucketBoundaries kFirstTokenBuckets = {0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,
                                                        0.5,   0.75,  1.0,   2.5,  5.0,  7.5,  10.0, 20.0, 40.0, 80.0};
const Histogram::BucketBoundaries kBetweenTokensBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                                           0.15,   0.2,   0.3,    0.4,   0.5,  0.75,  1.0,  2.5,   5.0};
const Histogram::BucketBoundaries kLatencyBuckets = {0.005, 0.02, 0.1,  0.3,  0.5,  0.8,  1.0,  1.5,  2.0,   2.5,
                                                     5.0,   10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0};
const Histogram::BucketBoundaries kTokenBuckets = {1,   2,    5,    10,   20,  50,  100, 200,
                                                   500, 1000, 2000, 5000, 1e4, 2e4, 5e4, 1e5};

}  // namespace

AnswerMetrics::AnswerMetrics(prometheus::Registry& registry, const std::string& model)
    : first_token_(histogram(registry, "vllm:time_to_first_token_seconds",
                             "From the arrival of a body to the first token of a choice.", model, kFirstTokenBuckets)),
      between_tokens_(histogram(registry, "vllm:inter_token_latency_seconds",
                                "Between two steps that made tokens of one choice.", model, kBetweenTokensBuckets)),
      latency_(histogram(registry, "vllm:e2e_request_latency_seconds",
                         "From the arrival of a body to the end of a choice.", model, kLatencyBuckets)),
      queue_(histogram(registry, "vllm:request_queue_time_seconds",
                       "From the arrival of a body to the first step of a choice.", model, kFirstTokenBuckets)),
      prefill_(histogram(registry, "vllm:request_prefill_time_seconds",
                         "From the first step of a choice to its first token.", model, kFirstTokenBuckets)),
      decode_(histogram(registry, "vllm:request_decode_time_seconds", "From the first token of a choice to its last.",
                        model, kLatencyBuckets)),
      prompt_tokens_(histogram(registry, "vllm:request_prompt_tokens", "Prompt tokens of a choice that has ended.",
                               model, kTokenBuckets)),
      generated_tokens_(histogram(registry, "vllm:request_generation_tokens",
                                  "Generated tokens of a choice that has ended.", model, kTokenBuckets)),
      finished_(prometheus::BuildCounter()
                    .Name("vllm:request_success_total")
                    .Help("Choices that have ended, by why: stop, length, abort, error.")
                    .Register(registry)),
      model_(model) {}

void AnswerMetrics::saw(ChoiceTimes& times, const Delta& delta) {
  if (delta.started) times.started = delta.started;
  if (delta.first_token) {  // the delta is a whole answer, without the times between its tokens
    saw_token(times, *delta.first_token);
    times.last_token = delta.sent;
  } else {
    std::size_t before = 0;
    for (const Delta::Merged& merged : delta.earlier) {
      if (merged.end > before) saw_token(times, merged.sent);
      before = merged.end;
    }
    if (delta.tokens.size() > before) saw_token(times, delta.sent);
  }
  if (delta.finish != FinishReason::kNone) saw_end(times, delta);
}

void AnswerMetrics::saw_token(ChoiceTimes& times, std::chrono::steady_clock::time_point made) {
  if (times.last_token) {
    between_tokens_.Observe(seconds(made - *times.last_token));
  } else {
    first_token_.Observe(seconds(made - times.arrival));
    times.first_token = made;
  }
  times.last_token = made;
}

void AnswerMetrics::saw_end(const ChoiceTimes& times, const Delta& delta) {
  latency_.Observe(seconds(delta.sent - times.arrival));
  if (times.started) queue_.Observe(seconds(*times.started - times.arrival));
  if (times.first_token) {
    if (times.started) prefill_.Observe(seconds(*times.first_token - *times.started));
    decode_.Observe(seconds(*times.last_token - *times.first_token));
  }
  prompt_tokens_.Observe(delta.usage.prompt_tokens);
  generated_tokens_.Observe(delta.usage.completion_tokens);
  finished_.Add({{"model_name", model_}, {"finished_reason", to_string(delta.finish)}}).Increment();
}

HttpAnswers::HttpAnswers(prometheus::Registry& registry)
    : family_(prometheus::BuildCounter()
                  .Name("mortise_http_answers_total")
                  .Help("Answers by HTTP status; 499: the client went away first.")
                  .Register(registry)) {
  // These exist from the start, so that a rate includes their first increment.
  for (const int status : {200, 400, 429, 500, 503}) family_.Add({{"status", std::to_string(status)}});
}

void HttpAnswers::sent(int status) {
  family_.Add({{"status", std::to_string(status)}}).Increment();
}

}  // namespace mortise
