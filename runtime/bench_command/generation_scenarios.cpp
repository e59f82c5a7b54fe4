// decode, prefill, batch, groups: these run requests through an engine.
#include <algorithm>

#include "bench_command/load.hpp"
#include "bench_command/prefill_case.hpp"
#include "bench_command/scenarios.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

Case decode_case(Subject& subject, std::int64_t batch, const SequenceShape& shape) {
  const std::vector<SequenceShape> shapes(static_cast<std::size_t>(batch), shape);
  Case out;
  out.name = fmt::format("decode, batch {}", batch);
  out.unit = "tokens/s";
  out.run = [&subject, shapes](std::uint32_t seed) {
    const LoadResult result =
        run_load(subject.engine(), make_requests(shapes, subject.assembly().dims().vocab_size, seed));
    return Outcome{static_cast<double>(result.tokens_after_first) / (result.end_s - result.all_first_s),
                   note_of(result, std::nullopt)};
  };
  out.floor = [&subject, batch, shape](const Limits& limits) {
    return rate(batch * (shape.output - 1),
                decode_floor_seconds(subject.cost(), batch, shape.prompt, shape.output, limits));
  };
  return out;
}

// Runs requests of many shapes at once. The figure is the generated tokens per second, or the time.
Case load_case(Subject& subject, std::string name, std::vector<SequenceShape> shapes, bool per_token,
               std::optional<std::int64_t> num_different, std::function<std::vector<Request>(std::uint32_t)> make) {
  std::int64_t num_tokens = 0;
  for (const SequenceShape& shape : shapes) num_tokens += shape.output;
  Case out;
  out.name = std::move(name);
  out.unit = per_token ? "tokens/s" : "s";
  out.higher_is_better = per_token;
  out.run = [&subject, make = std::move(make), per_token, num_different](std::uint32_t seed) {
    const LoadResult result = run_load(subject.engine(), make(seed));
    return Outcome{per_token ? static_cast<double>(result.num_tokens) / result.end_s : result.end_s,
                   note_of(result, num_different)};
  };
  out.floor = [&subject, shapes = std::move(shapes), per_token, num_tokens](const Limits& limits) {
    const std::optional<double> seconds =
        batch_floor_seconds(subject.cost(), shapes, subject.assembly().limits().max_num_seqs, limits);
    return per_token ? rate(num_tokens, seconds) : seconds;
  };
  return out;
}

}  // namespace

Scenario decode_scenario(Subject& subject, const Sizes& sizes) {
  const SequenceShape shape = sequence_of(subject, sizes, 128, sizes.output.value_or(128));
  check_at_least(2, "--output", shape.output);  // the first token comes from the prompt
  Scenario scenario{"decode", {}, {}, subject.make_probes()};
  const std::int64_t most = subject.assembly().limits().max_num_seqs;
  for (const std::int64_t batch : sizes.batches.empty() ? std::vector<std::int64_t>{1, 8, 32} : sizes.batches) {
    check_at_least(1, "--batch", batch);
    if (batch > most) {
      fail("--batch {}: the pipeline runs {} sequences at once; --set scheduler.max_num_seqs={} allows more", batch,
           most, batch);
    }
    scenario.cases.push_back(decode_case(subject, batch, shape));
  }
  return scenario;
}

Scenario prefill_scenario(Subject& subject, const Sizes& sizes) {
  const SequenceShape shape = sequence_of(subject, sizes, 1024, 1);
  Scenario scenario{"prefill", {}, {}, subject.make_probes()};
  scenario.cases.push_back(prefill_case(subject, one_batch(sizes, 16), shape.prompt, /*score=*/false));
  return scenario;
}

Scenario batch_scenario(Subject& subject, const Sizes& sizes) {
  const SequenceShape most = sequence_of(subject, sizes, 512, sizes.output.value_or(128));
  constexpr std::uint32_t kShapeSeed = 1;  // the lengths are the same in each run; only the tokens differ
  std::vector<SequenceShape> shapes = mixed_shapes(one_batch(sizes, 64), most.prompt, most.output, kShapeSeed);
  Scenario scenario{"batch", {}, {}, subject.make_probes()};
  scenario.cases.push_back(load_case(subject, fmt::format("batch, {} mixed", shapes.size()), shapes, /*per_token=*/true,
                                     /*num_different=*/std::nullopt, [&subject, shapes](std::uint32_t seed) {
                                       return make_requests(shapes, subject.assembly().dims().vocab_size, seed);
                                     }));
  return scenario;
}

Scenario groups_scenario(Subject& subject, const Sizes& sizes) {
  PrefixGroupLoad load{sizes.num_groups.value_or(32), one_batch(sizes, 8),       sizes.shared.value_or(512),
                       sizes.own.value_or(64),        sizes.output.value_or(32), sizes.largest_group};
  check_at_least(1, "--groups", load.num_groups);
  check_at_least(0, "--shared", load.shared);
  check_at_least(1, "--own", load.own);
  check_at_least(1, "--output", load.output);
  check_fits(subject, load.shared + load.own, load.output, fmt::format("--shared {}, --own {}", load.shared, load.own));
  Scenario scenario{"groups", {}, {}, subject.make_probes()};
  const std::string largest = load.largest > 0 ? fmt::format(" and {}", load.largest) : "";
  scenario.cases.push_back(load_case(subject,
                                     fmt::format("groups, {} x {}{}, {} + {} + {}", load.num_groups, load.per_group,
                                                 largest, load.shared, load.own, load.output),
                                     group_shapes(load), /*per_token=*/false, load.num_different(),
                                     [&subject, load](std::uint32_t seed) {
                                       return make_group_requests(load, subject.assembly().dims().vocab_size, seed);
                                     }));
  return scenario;
}

}  // namespace mortise::bench
