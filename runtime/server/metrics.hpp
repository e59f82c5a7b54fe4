// runtime/server/metrics.hpp: the metrics that Prometheus reads at /metrics (text format 0.0.4). Metrics that vLLM has,
// too, have vLLM's names, so that routers, dashboards and benchmark clients find them; all others begin with mortise_.
#pragma once

#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <memory>
#include <string>

#include "openai/observer.hpp"
#include "server/models.hpp"

namespace mortise {

// Measures the times of one model's answers. Thread-safe. Invariant: each choice is counted once, at its end.
class AnswerMetrics : public AnswerObserver {
 public:
  AnswerMetrics(prometheus::Registry& registry, const std::string& model);
  void saw(ChoiceTimes& times, const Delta& delta) override;

 private:
  void saw_token(ChoiceTimes& times, std::chrono::steady_clock::time_point made);
  void saw_end(const ChoiceTimes& times, const Delta& delta);

  prometheus::Histogram& first_token_;
  prometheus::Histogram& between_tokens_;
  prometheus::Histogram& latency_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& prefill_;
  prometheus::Histogram& decode_;
  prometheus::Histogram& prompt_tokens_;
  prometheus::Histogram& generated_tokens_;
  prometheus::Family<prometheus::Counter>& finished_;
  const std::string model_;
};

// Counts all answers by HTTP status, including those of requests that reached no model. Thread-safe. Invariant: each
// answer is counted once.
class HttpAnswers {
 public:
  explicit HttpAnswers(prometheus::Registry& registry);
  void sent(int status);

 private:
  prometheus::Family<prometheus::Counter>& family_;
};

// Returns the current figures of the engines. `draining`: the server takes no more requests.
std::vector<prometheus::MetricFamily> engine_metrics(const Models& models, bool draining);

}  // namespace mortise
