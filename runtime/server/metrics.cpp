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

// vLLM's, and two finer ones below for small models.
const Histogram::BucketBoundaries kFirstTokenBuckets = {0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,
                                                        0.5,   0.75,  1.0,   2.5,  5.0,  7.5,  10.0, 20.0, 40.0, 80.0};
const Histogram::BucketBoundaries kBetweenTokensBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                                           0.15,   0.2,   0.3,    0.4,   0.5,  0.75,  1.0,  2.5,   5.0};
const Histogram::BucketBoundaries kLatencyBuckets = {0.005, 0.02, 0.1,  0.3,  0.5,  0.8,  1.0,  1.5,  2.0,   2.5,
                                                     5.0,   10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0};

}  // namespace

AnswerMetrics::AnswerMetrics(prometheus::Registry& registry, const std::string& model)
    : first_token_(histogram(registry, "vllm:time_to_first_token_seconds",
                             "From the arrival of a body to the first token of a choice.", model, kFirstTokenBuckets)),
      between_tokens_(histogram(registry, "vllm:inter_token_latency_seconds",
                                "Between two steps that made tokens of one choice.", model, kBetweenTokensBuckets)),
      latency_(histogram(registry, "vllm:e2e_request_latency_seconds",
                         "From the arrival of a body to the end of a choice.", model, kLatencyBuckets)),
      finished_(prometheus::BuildCounter()
                    .Name("vllm:request_success_total")
                    .Help("Choices that have ended, by why: stop, length, aborted, error.")
                    .Register(registry)),
      model_(model) {}

void AnswerMetrics::saw(ChoiceTimes& times, const Delta& delta) {
  const auto made = [&](std::chrono::steady_clock::time_point when) {
    if (times.last_token) {
      between_tokens_.Observe(seconds(when - *times.last_token));
    } else {
      first_token_.Observe(seconds(when - times.arrival));
    }
    times.last_token = when;
  };
  std::size_t before = 0;
  for (const Delta::Part& part : delta.earlier) {
    if (part.end > before) made(part.sent);
    before = part.end;
  }
  if (delta.tokens.size() > before) made(delta.sent);
  if (delta.finish == FinishReason::kNone) return;
  latency_.Observe(seconds(delta.sent - times.arrival));
  finished_.Add({{"model_name", model_}, {"finished_reason", to_string(delta.finish)}}).Increment();
}

}  // namespace mortise
