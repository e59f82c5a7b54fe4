// runtime/server/metrics.hpp: what Prometheus scrapes at /metrics (text format 0.0.4). The names are vLLM's where it
// has one for the same thing, so that routers, dashboards and benchmark clients find them; others begin with mortise_.
#pragma once

#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>

#include "openai/observer.hpp"
#include "server/models.hpp"

namespace mortise {

// The times of one model's answers, as its service's observer. Thread-safe.
class AnswerMetrics : public AnswerObserver {
 public:
  AnswerMetrics(prometheus::Registry& registry, const std::string& model);
  void saw(ChoiceTimes& times, const Delta& delta) override;

 private:
  prometheus::Histogram& first_token_;
  prometheus::Histogram& between_tokens_;
  prometheus::Histogram& latency_;
  prometheus::Family<prometheus::Counter>& finished_;
  const std::string model_;
};

// What the engines count, as of now.
std::vector<prometheus::MetricFamily> engine_metrics(const Models& models);

}  // namespace mortise
