// decode, prefill, batch, groups, score: requests through a running engine.
#include <algorithm>

#include "bench/load.hpp"
#include "bench/scenarios.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

void check_at_least(std::int64_t least, const char* option, std::int64_t value) {
  if (value < least) fail("{} {}: expected {} or more", option, value, least);
}

// `what` tells the options that made the sum.
void check_fits(const Subject& subject, std::int64_t prompt, std::int64_t output, const std::string& what) {
  const std::int64_t most = subject.assembly().limits().max_model_len;
  if (prompt + output > most) {
    fail("{} and --output {} make {} tokens, and the model takes {}; ask for fewer", what, output, prompt + output,
         most);
  }
}

// `prompt` if it was given, else the default as far as the model goes.
SequenceShape sequence_of(const Subject& subject, const Sizes& sizes, std::int64_t default_prompt,
                          std::int64_t output) {
  const std::int64_t most = subject.assembly().limits().max_model_len;
  check_at_least(1, "--output", output);
  const std::int64_t prompt = sizes.prompt.value_or(std::max<std::int64_t>(1, std::min(default_prompt, most - output)));
  check_at_least(1, "--prompt", prompt);
  check_fits(subject, prompt, output, fmt::format("--prompt {}", prompt));
  return {prompt, output, 0};
}

std::int64_t one_batch(const Sizes& sizes, std::int64_t otherwise) {
  if (sizes.batches.size() > 1) fail("--batch: several are for decode; give one");
  const std::int64_t batch = sizes.batches.empty() ? otherwise : sizes.batches.front();
  check_at_least(1, "--batch", batch);
  return batch;
}

std::string note_of(const LoadResult& result, bool expects_hits) {
  std::string note;
  if (result.num_preemptions > 0) note = fmt::format("{} preemptions", result.num_preemptions);
  if (expects_hits) note += fmt::format("{}{} prompt tokens cached", note.empty() ? "" : ", ", result.cached_tokens);
  return note;
}

std::optional<double> rate(std::int64_t tokens, std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  return static_cast<double>(tokens) / *seconds;
}

Case decode_case(Subject& subject, std::int64_t batch, const SequenceShape& shape) {
  const std::vector<SequenceShape> shapes(static_cast<std::size_t>(batch), shape);
  Case out;
  out.name = fmt::format("decode, batch {}", batch);
  out.unit = "tokens/s";
  out.run = [&subject, shapes](std::uint32_t seed) {
    const LoadResult result =
        run_load(subject.engine(), make_requests(shapes, subject.assembly().dims().vocab_size, seed));
    return Outcome{static_cast<double>(result.tokens_after_first) / (result.end_s - result.all_first_s),
                   note_of(result, false)};
  };
  out.floor = [&subject, batch, shape](const Limits& limits) {
    return rate(batch * (shape.output - 1),
                decode_floor_seconds(subject.cost(), batch, shape.prompt, shape.output, limits));
  };
  return out;
}

// All prompts at once until each has its first token; with `score` also the log probabilities of all their tokens.
Case prefill_case(Subject& subject, std::int64_t batch, std::int64_t prompt, bool score) {
  const std::vector<SequenceShape> shapes(static_cast<std::size_t>(batch), SequenceShape{prompt, 1, 0});
  Case out;
  out.name = fmt::format("{}, {} x {}", score ? "score" : "prefill", batch, prompt);
  out.unit = "tokens/s";
  out.run = [&subject, shapes, batch, prompt, score](std::uint32_t seed) {
    std::vector<Request> requests = make_requests(shapes, subject.assembly().dims().vocab_size, seed);
    for (Request& request : requests) {
      if (score) request.score_from = 1;
    }
    const LoadResult result = run_load(subject.engine(), std::move(requests));
    return Outcome{static_cast<double>(batch * prompt) / result.end_s, note_of(result, false)};
  };
  out.floor = [&subject, batch, prompt, score](const Limits& limits) -> std::optional<double> {
    Work work = prefill_rows(subject.cost(), 0, prompt, score ? prompt : 1);
    work.operations *= static_cast<double>(batch);
    if (!limits.operations_per_s) return std::nullopt;
    work.bytes = subject.cost().weight_bytes;
    return rate(batch * prompt, floor_seconds(work, limits));
  };
  return out;
}

// Requests of many shapes at once; the figure is generated tokens over the whole time, or the time.
Case load_case(Subject& subject, std::string name, std::vector<SequenceShape> shapes, bool per_token, bool expects_hits,
               std::function<std::vector<Request>(std::uint32_t)> make) {
  std::int64_t num_tokens = 0;
  for (const SequenceShape& shape : shapes) num_tokens += shape.output;
  Case out;
  out.name = std::move(name);
  out.unit = per_token ? "tokens/s" : "s";
  out.higher_is_better = per_token;
  out.run = [&subject, make = std::move(make), per_token, expects_hits](std::uint32_t seed) {
    const LoadResult result = run_load(subject.engine(), make(seed));
    return Outcome{per_token ? static_cast<double>(result.num_tokens) / result.end_s : result.end_s,
                   note_of(result, expects_hits)};
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
  check_at_least(2, "--output", shape.output);  // the first token is the prompt's
  Scenario scenario{"decode", {}, {}, subject.make_probes()};
  const std::int64_t most = subject.assembly().limits().max_num_seqs;
  for (const std::int64_t batch : sizes.batches.empty() ? std::vector<std::int64_t>{1, 8, 32} : sizes.batches) {
    check_at_least(1, "--batch", batch);
    if (batch > most) {
      fail("--batch {}: the pipeline runs {} sequences at once; --set scheduler.max_num_seqs={} makes them more", batch,
           most, batch);
    }
    scenario.cases.push_back(decode_case(subject, batch, shape));
  }
  return scenario;
}

Scenario prefill_scenario(Subject& subject, const Sizes& sizes) {
  const SequenceShape shape = sequence_of(subject, sizes, 1024, 1);
  Scenario scenario{"prefill", {}, {}, subject.make_probes()};
  scenario.cases.push_back(prefill_case(subject, one_batch(sizes, 16), shape.prompt, false));
  return scenario;
}

Scenario score_scenario(Subject& subject, const Sizes& sizes) {
  const SequenceShape shape = sequence_of(subject, sizes, 1024, 1);
  check_at_least(2, "--prompt", shape.prompt);  // nothing predicts the first token
  const std::int64_t batch = one_batch(sizes, 16);
  Scenario scenario{"score", {}, {}, subject.make_probes()};
  scenario.cases.push_back(prefill_case(subject, batch, shape.prompt, false));
  scenario.cases.push_back(prefill_case(subject, batch, shape.prompt, true));
  scenario.relations.push_back({"score over prefill", 0, 1});
  return scenario;
}

Scenario batch_scenario(Subject& subject, const Sizes& sizes) {
  const SequenceShape most = sequence_of(subject, sizes, 512, sizes.output.value_or(128));
  constexpr std::uint32_t kShapeSeed = 1;  // the same lengths in each run: only the tokens are other ones
  std::vector<SequenceShape> shapes = mixed_shapes(one_batch(sizes, 64), most.prompt, most.output, kShapeSeed);
  Scenario scenario{"batch", {}, {}, subject.make_probes()};
  scenario.cases.push_back(load_case(subject, fmt::format("batch, {} mixed", shapes.size()), shapes, /*per_token=*/true,
                                     /*expects_hits=*/false, [&subject, shapes](std::uint32_t seed) {
                                       return make_requests(shapes, subject.assembly().dims().vocab_size, seed);
                                     }));
  return scenario;
}

Scenario groups_scenario(Subject& subject, const Sizes& sizes) {
  GroupLoad load{sizes.num_groups.value_or(32), one_batch(sizes, 8), sizes.shared.value_or(512), sizes.own.value_or(64),
                 sizes.output.value_or(32)};
  check_at_least(1, "--groups", load.num_groups);
  check_at_least(0, "--shared", load.shared);
  check_at_least(1, "--own", load.own);
  check_at_least(1, "--output", load.output);
  check_fits(subject, load.shared + load.own, load.output, fmt::format("--shared {}, --own {}", load.shared, load.own));
  Scenario scenario{"groups", {}, {}, subject.make_probes()};
  scenario.cases.push_back(load_case(
      subject,
      fmt::format("groups, {} x {}, {} + {} + {}", load.num_groups, load.per_group, load.shared, load.own, load.output),
      group_shapes(load), /*per_token=*/false, /*expects_hits=*/true, [&subject, load](std::uint32_t seed) {
        return make_group_requests(load, subject.assembly().dims().vocab_size, seed);
      }));
  return scenario;
}

}  // namespace mortise::bench
