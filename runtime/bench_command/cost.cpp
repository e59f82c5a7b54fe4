#include "bench_command/cost.hpp"

#include <algorithm>

namespace mortise::bench {
namespace {

double attention_operations(const ModelCost& cost, double visible) {
  return 4 * cost.attention_width * visible;  // q . k and p . v, each a multiplication and an addition
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  bytes += other.bytes;
  operations += other.operations;
  rows += other.rows;
  logits += other.logits;
  return *this;
}

Work& Work::operator*=(double factor) {
  bytes *= factor;
  operations *= factor;
  rows *= factor;
  logits *= factor;
  return *this;
}

double visible_positions(const ModelCost& cost, std::int64_t context) {
  double sum = 0;
  for (const std::int32_t window : cost.windows) {
    sum += static_cast<double>(window > 0 ? std::min<std::int64_t>(window, context) : context);
  }
  return sum;
}

Work decode_step(const ModelCost& cost, std::span<const std::int64_t> contexts) {
  double visible = 0;
  for (const std::int64_t context : contexts) visible += visible_positions(cost, context);
  const auto rows = static_cast<double>(contexts.size());
  return {.bytes = cost.weight_bytes + cost.kv_bytes * visible,
          .operations = 2 * rows * (cost.body_elements + cost.head_elements) + attention_operations(cost, visible),
          .rows = rows,
          .logits = rows};
}

Work prefill_rows(const ModelCost& cost, std::int64_t begin, std::int64_t end, std::int64_t num_logits) {
  double visible = 0;
  for (std::int64_t position = begin; position < end; ++position) visible += visible_positions(cost, position + 1);
  const auto rows = static_cast<double>(end - begin), logits = static_cast<double>(num_logits);
  return {.bytes = 0,
          .operations =
              2 * cost.body_elements * rows + 2 * cost.head_elements * logits + attention_operations(cost, visible),
          .rows = rows,
          .logits = logits};
}

std::optional<double> floor_seconds(const Work& work, const Limits& limits) {
  const double read = work.bytes / limits.read_bytes_per_s;
  if (limits.operations_per_s) return std::max(read, work.operations / *limits.operations_per_s);
  if (work.bytes == 0) return std::nullopt;
  return read;
}

double link_seconds(const ModelCost& cost, const Work& work, const Limits& limits) {
  if (!limits.links) return 0;
  const auto exchange = [&](double bytes) {
    return std::max(limits.links->latency_s, bytes / limits.links->bytes_per_s);
  };
  double seconds = 0;
  if (work.rows > 0) {
    for (const Exchanges& e : cost.exchanges) seconds += e.count * exchange(e.row_bytes * work.rows);
  }
  if (work.logits > 0) seconds += exchange(cost.head_exchange_bytes * work.logits);
  return seconds;
}

std::optional<double> floor_seconds(const ModelCost& cost, const Work& work, const Limits& limits) {
  const std::optional<double> seconds = floor_seconds(work, limits);
  if (!seconds) return std::nullopt;
  return *seconds + link_seconds(cost, work, limits);
}

double decode_floor_seconds(const ModelCost& cost, std::int64_t batch, std::int64_t prompt, std::int64_t output,
                            const Limits& limits) {
  double seconds = 0;
  // The first token comes from the prompt; step i after it sees i more positions.
  for (std::int64_t i = 1; i < output; ++i) {
    const std::vector<std::int64_t> contexts(static_cast<std::size_t>(batch), prompt + i);
    seconds += *floor_seconds(cost, decode_step(cost, contexts), limits);
  }
  return seconds;
}

std::optional<double> batch_floor_seconds(const ModelCost& cost, std::span<const SequenceShape> sequences,
                                          std::int64_t max_num_seqs, const Limits& limits) {
  Work prompts;
  for (const SequenceShape& s : sequences) prompts += prefill_rows(cost, s.cached, s.prompt, 1);
  std::optional<double> seconds = floor_seconds(cost, prompts, limits);
  if (!seconds) return std::nullopt;

  std::vector<SequenceShape> order(sequences.begin(), sequences.end());
  std::sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.output > b.output; });
  const auto wave = static_cast<std::size_t>(max_num_seqs);
  for (std::size_t begin = 0; begin < order.size(); begin += wave) {
    const std::span running(order.data() + begin, std::min(wave, order.size() - begin));
    for (std::int64_t i = 1; i < running.front().output; ++i) {
      std::vector<std::int64_t> contexts;
      double shared = 0;  // positions that are read together with another sequence
      for (const SequenceShape& s : running) {
        if (s.output <= i) break;
        contexts.push_back(s.prompt + i);
        shared += visible_positions(cost, s.cached);
      }
      Work step = decode_step(cost, contexts);
      step.bytes -= cost.kv_bytes * shared;
      *seconds += *floor_seconds(cost, step, limits);
    }
  }
  return seconds;
}

}  // namespace mortise::bench
