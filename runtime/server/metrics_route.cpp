#include <prometheus/text_serializer.h>

#include "server/metrics.hpp"
#include "server/routes.hpp"

namespace mortise {

void add_metrics_route(Router& router, const Models& models, const prometheus::Registry& answers,
                       std::function<bool()> draining) {
  router.add({.method = "GET",
              .path = "/metrics",
              .access = Route::Access::kOpen,
              .cost = Route::Cost::kCheap,
              .handle = [&models, &answers, draining = std::move(draining)](const auto& exchange) {
                std::vector<prometheus::MetricFamily> all = answers.Collect();
                for (prometheus::MetricFamily& family : engine_metrics(models, draining()))
                  all.push_back(std::move(family));
                HttpAnswer answer;
                answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
                answer.body = prometheus::TextSerializer().Serialize(all);
                exchange->answer(std::move(answer));
              }});
}

}  // namespace mortise
