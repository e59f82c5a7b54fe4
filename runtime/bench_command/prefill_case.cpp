#include "bench_command/prefill_case.hpp"

#include <algorithm>

#include "error.hpp"

namespace mortise::bench {

void check_at_least(std::int64_t least, const char* option, std::int64_t value) {
  if (value < least) fail("{} {}: expected {} or more", option, value, least);
}

void check_fits(const Subject& subject, std::int64_t prompt, std::int64_t output, const std::string& what) {
  const std::int64_t most = subject.assembly().limits().max_model_len;
  if (prompt + output > most) {
    fail("{} and --output {} make {} tokens, but the model allows {}; ask for fewer", what, output, prompt + output,
         most);
  }
}

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
  if (sizes.batches.size() > 1) fail("--batch: only the scenario decode accepts several; give one");
  const std::int64_t batch = sizes.batches.empty() ? otherwise : sizes.batches.front();
  check_at_least(1, "--batch", batch);
  return batch;
}

std::string note_of(const LoadResult& result, std::optional<std::int64_t> num_different) {
  std::string note;
  if (result.num_preemptions > 0) note = fmt::format("{} preemptions", result.num_preemptions);
  if (num_different) {
    note += fmt::format("{}{} tokens cached, {} computed ({:.2f} times the distinct tokens)", note.empty() ? "" : ", ",
                        result.cached_tokens, result.computed_tokens,
                        static_cast<double>(result.computed_tokens) / static_cast<double>(*num_different));
  }
  return note;
}

std::optional<double> rate(std::int64_t tokens, std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  return static_cast<double>(tokens) / *seconds;
}

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
    return Outcome{static_cast<double>(batch * prompt) / result.end_s, note_of(result, std::nullopt)};
  };
  out.floor = [&subject, batch, prompt, score](const Limits& limits) -> std::optional<double> {
    Work work = prefill_rows(subject.cost(), 0, prompt, score ? prompt : 1);
    work *= static_cast<double>(batch);
    if (!limits.operations_per_s) return std::nullopt;
    work.bytes = subject.cost().weight_bytes;
    return rate(batch * prompt, floor_seconds(subject.cost(), work, limits));
  };
  return out;
}

}  // namespace mortise::bench
