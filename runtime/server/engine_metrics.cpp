#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include "server/metrics.hpp"

namespace mortise {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Collects metric families in the order of their first value.
class Families {
 public:
  void gauge(const char* name, const char* help, Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.gauge.value = value;
    family(name, help, MetricType::Gauge).metric.push_back(std::move(metric));
  }
  void counter(const char* name, const char* help, Labels labels, std::uint64_t value) {
    counter(name, help, std::move(labels), static_cast<double>(value));
  }
  void counter(const char* name, const char* help, Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    family(name, help, MetricType::Counter).metric.push_back(std::move(metric));
  }
  std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  MetricFamily& family(const char* name, const char* help, MetricType type) {
    for (MetricFamily& known : families_) {
      if (known.name == name) return known;
    }
    families_.push_back({name, help, type, {}});
    return families_.back();
  }
  std::vector<MetricFamily> families_;
};

Labels with(const Labels& labels, std::string name, std::string value) {
  Labels all = labels;
  all.push_back({std::move(name), std::move(value)});
  return all;
}

void add_load(Families& to, const EngineStats& stats, const Labels& labels) {
  to.gauge("vllm:num_requests_running", "Sequences that run.", labels, stats.num_running);
  to.gauge("vllm:num_requests_waiting", "Sequences that wait for their first step.", labels, stats.num_waiting);
  const double held = stats.num_blocks - stats.num_free_blocks - stats.num_cached_free_blocks;
  to.gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks that sequences hold, from 0 to 1.", labels,
           stats.num_blocks > 0 ? held / stats.num_blocks : 0);
  to.gauge("mortise_kv_cached_blocks", "KV blocks that are cached but not held by a sequence.", labels,
           stats.num_cached_free_blocks);
  to.counter("vllm:num_preemptions_total", "Sequences that were preempted, and gave up their KV blocks.", labels,
             stats.num_preemptions);
}

// The metrics that an alert checks first.
void add_health(Families& to, const ServedModel& model, bool draining, const Labels& labels) {
  using State = EngineHealth::State;
  const State state = model.engine.health().state;
  to.gauge("mortise_ready", "1 while the model accepts requests.", labels, state == State::kOk && !draining);
  to.gauge("mortise_part_failed", "1 when a part that the model needs has failed: all requests fail.", labels,
           state == State::kFailed);
  to.gauge("mortise_max_waiting_requests", "Requests that may wait before more are answered with 429.", labels,
           static_cast<double>(model.max_waiting));
}

void add_steps(Families& to, const EngineStats& stats, const Labels& labels) {
  to.counter("mortise_steps_total", "Steps of the engine.", labels, stats.num_steps);
  to.counter("mortise_rows_total", "Rows that steps ran.", labels, stats.num_rows);
  const auto rows = [&](const char* kind, std::uint64_t total, std::int32_t last) {
    const Labels kind_labels = with(labels, "kind", kind);
    to.counter("mortise_step_rows_total", "Rows that steps ran, by kind, without the additional paths of draft trees.",
               kind_labels, total);
    to.gauge("mortise_last_step_rows", "Rows of the last step, by kind.", kind_labels, last);
  };
  rows("prompt", stats.num_prompt_rows, stats.last_batch.prompt_rows);
  rows("decode", stats.num_decode_rows, stats.last_batch.decode_rows);
  rows("draft", stats.num_draft_rows, stats.last_batch.draft_rows);
  to.gauge("mortise_last_step_sequences", "Sequences of the last step.", labels, stats.last_batch.num_sequences);
  to.counter("mortise_timed_steps_total", "Steps whose phases were timed: one in every few steps.", labels,
             stats.phases.num_steps);
  for (std::size_t i = 0; i < kNumStepPhases; ++i) {
    to.counter("mortise_step_phase_seconds_total", "Time of the timed steps, by phase.",
               with(labels, "phase", to_string(static_cast<StepPhase>(i))),
               static_cast<double>(stats.phases.ns[i]) * 1e-9);
  }
}

void add_tokens(Families& to, const EngineStats& stats, const Labels& labels) {
  to.counter("vllm:prompt_tokens_total", "Known tokens of sequences when they start.", labels,
             stats.num_admitted_tokens);
  to.counter("vllm:generation_tokens_total", "Generated tokens.", labels, stats.num_generated);
  to.counter("vllm:prefix_cache_queries_total", "Tokens that were looked up in the prefix cache.", labels,
             stats.num_admitted_tokens);
  to.counter("vllm:prefix_cache_hits_total", "Tokens whose KV came from the prefix cache.", labels,
             stats.num_cached_tokens);
  to.counter("mortise_prefix_cache_evicted_blocks_total", "KV blocks that were evicted from the prefix cache.", labels,
             stats.num_evicted_blocks);
}

// vLLM has a single proposer, so the metrics with its names are sums over ours.
void add_speculation(Families& to, const SpeculationStats& stats, const Labels& labels) {
  ProposerStats sum;
  for (const ProposerStats& proposer : stats.proposers) {
    sum.add(proposer);
    const Labels named = with(labels, "proposer", proposer.name);
    to.counter("mortise_draft_tokens_total", "Tokens that a proposer drafted.", named, proposer.num_drafts);
    to.counter("mortise_accepted_tokens_total", "Draft tokens that were accepted.", named, proposer.num_accepted);
    for (std::size_t i = 0; i < proposer.drafted_at.size(); ++i) {
      const Labels at = with(named, "position", std::to_string(i));
      to.counter("mortise_draft_tokens_per_position_total", "Draft tokens by position in the draft.", at,
                 proposer.drafted_at[i]);
      to.counter("mortise_accepted_tokens_per_position_total", "Draft tokens that were accepted.", at,
                 proposer.accepted_at[i]);
    }
  }
  if (stats.proposers.empty()) return;
  to.counter("vllm:spec_decode_num_drafts_total", "Drafts: one for each sequence and step that had any.", labels,
             sum.num_verified);
  to.counter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens.", labels, sum.num_drafts);
  to.counter("vllm:spec_decode_num_accepted_tokens_total", "Accepted tokens.", labels, sum.num_accepted);
  for (std::size_t i = 0; i < sum.accepted_at.size(); ++i) {
    to.counter("vllm:spec_decode_num_accepted_tokens_per_pos_total", "Accepted tokens by position in the draft.",
               with(labels, "position", std::to_string(i)), sum.accepted_at[i]);
  }
}

void add_parts(Families& to, const ServedModel& model, const EngineStats& stats, const Labels& labels) {
  to.counter("mortise_rejected_plans_total", "Plans of the scheduler that broke a bound.", labels,
             stats.num_rejected_plans);
  to.counter("mortise_proposer_failures_total", "Calls of proposers that failed.", labels, stats.num_proposer_failures);
  to.counter("mortise_starved_total", "Sequences that the scheduler passed over until the host ran them.", labels,
             stats.num_starved);
  to.gauge("vllm:cache_config_info", "The KV cache.",
           with(with(labels, "block_size", std::to_string(model.block_size())), "num_gpu_blocks",
                std::to_string(stats.num_blocks)),
           1);
  for (const ServedPart& part : model.parts()) {
    to.gauge("mortise_part_info", "The parts that serve the model.",
             with(with(with(labels, "role", part.role), "name", part.name), "version", part.version), 1);
  }
}

}  // namespace

std::vector<MetricFamily> engine_metrics(const Models& models, bool draining) {
  Families families;
  for (const ServedModelRef& served : models.list()) {
    const ServedModel& model = *served;
    const EngineStats stats = model.engine.stats();
    const Labels labels = {{"model_name", model.name}};
    add_health(families, model, draining, labels);
    add_load(families, stats, labels);
    add_steps(families, stats, labels);
    add_tokens(families, stats, labels);
    add_speculation(families, stats.speculation, labels);
    add_parts(families, model, stats, labels);
  }
  return families.take();
}

}  // namespace mortise
