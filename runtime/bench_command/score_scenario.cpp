// score: measures the cost of log probabilities relative to the prefill of the same tokens plus the head's product for
// the scored rows, for all tokens of prompts, and for many choices after each of several long contexts.
#include <memory>
#include <random>

#include "bench_command/prefill_case.hpp"
#include "error.hpp"
#include "execution/head_pass.hpp"
#include "mortise/plugin.hpp"

namespace mortise::bench {
namespace {

constexpr std::int64_t kNumChoices = 16;  // for each context

struct ChoiceLoad {
  std::int64_t num_contexts, context, choice;  // context, choice: numbers of tokens

  std::int64_t num_scored() const { return num_contexts * kNumChoices * choice; }
  std::int64_t num_unique() const { return num_contexts * context + num_scored(); }
};

std::vector<Request> make_choice_requests(const ChoiceLoad& load, std::int32_t vocab_size, std::uint32_t seed) {
  const auto count = static_cast<std::size_t>(load.num_contexts);
  const std::vector<SequenceShape> context_shapes(count, {load.context, 1, 0});
  const std::vector<SequenceShape> choice_shapes(count * static_cast<std::size_t>(kNumChoices), {load.choice, 1, 0});
  const std::vector<Request> contexts = make_requests(context_shapes, vocab_size, seed);
  std::vector<Request> choices = make_requests(choice_shapes, vocab_size, ~seed);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    std::vector<std::int32_t> prompt = contexts[i / static_cast<std::size_t>(kNumChoices)].prompt;
    prompt.insert(prompt.end(), choices[i].prompt.begin(), choices[i].prompt.end());
    choices[i].prompt = std::move(prompt);
    choices[i].sampling.max_tokens = 0;
    choices[i].score_from = static_cast<std::int32_t>(load.context);
  }
  return choices;
}

// Measures the head's product for this many rows without the engine, which is idle meanwhile. The unit is tokens/s of
// the work that the rows belong to, so that the figures can be compared.
class HeadProduct {
 public:
  explicit HeadProduct(Subject& subject)
      : parts_(subject.assembly().parts()),
        dims_(subject.assembly().dims()),
        most_(subject.assembly().limits().max_logit_rows),
        head_(parts_),
        hidden_(parts_.device),
        rows_(parts_.device) {
    const auto element = static_cast<std::uint64_t>(dtype_bytes(dims_.dtype));
    const auto bytes = static_cast<std::uint64_t>(most_) * static_cast<std::uint64_t>(dims_.hidden_size) * element;
    hidden_view_ = matrix(hidden_.reserve(bytes), dims_.dtype, most_, dims_.hidden_size);
    std::vector<std::int32_t> numbers;
    for (std::int32_t i = 0; i < most_; ++i) numbers.push_back(i);
    numbers_ = rows_.put(std::span<const std::int32_t>(numbers));
    rows_.upload();
  }

  double seconds(std::int64_t num_rows) {
    mortise_step step{};
    step.struct_size = sizeof step;
    step.device = parts_.device.self;
    step.device_table = parts_.device.api;
    step.world = 1;
    const double begin = steady_seconds();
    for (std::int64_t first = 0; first < num_rows; first += most_) {
      head_.run(step, hidden_view_, rows_.device<std::int32_t>(numbers_),
                std::min<std::int64_t>(most_, num_rows - first));
    }
    synchronize(parts_.device);
    return steady_seconds() - begin;
  }

 private:
  const ShardParts parts_;
  const mortise_model_dims dims_;
  const std::int32_t most_;
  HeadPass head_;
  DeviceBuffer hidden_;
  PackedUpload rows_;
  mortise_tensor hidden_view_{};
  std::size_t numbers_ = 0;
};

Case head_case(Subject& subject, const std::shared_ptr<HeadProduct>& head, std::int64_t num_rows,
               std::int64_t num_tokens) {
  Case out;
  out.name = fmt::format("head's product, {} rows of {}", num_rows, num_tokens);
  out.unit = "tokens/s";
  out.run = [head, num_rows, num_tokens](std::uint32_t) {
    return Outcome{static_cast<double>(num_tokens) / head->seconds(num_rows), ""};
  };
  out.floor = [&subject, num_rows, num_tokens](const Limits& limits) -> std::optional<double> {
    if (!limits.operations_per_s) return std::nullopt;
    const Work work{0, 2 * subject.cost().head_elements * static_cast<double>(num_rows)};
    return rate(num_tokens, floor_seconds(work, limits));
  };
  return out;
}

Case choices_case(Subject& subject, const ChoiceLoad& load) {
  Case out;
  out.name =
      fmt::format("score, {} x {} choices of {} over {}", load.num_contexts, kNumChoices, load.choice, load.context);
  out.unit = "tokens/s";
  out.run = [&subject, load](std::uint32_t seed) {
    const LoadResult result =
        run_load(subject.engine(), make_choice_requests(load, subject.assembly().dims().vocab_size, seed));
    return Outcome{static_cast<double>(load.num_unique()) / result.end_s, note_of(result, load.num_unique())};
  };
  out.floor = [&subject, load](const Limits& limits) -> std::optional<double> {
    if (!limits.operations_per_s) return std::nullopt;
    Work work = prefill_rows(subject.cost(), 0, load.context, 0);
    for (std::int64_t i = 0; i < kNumChoices; ++i) {
      work += prefill_rows(subject.cost(), load.context, load.context + load.choice, load.choice);
    }
    work.operations *= static_cast<double>(load.num_contexts);
    work.bytes = subject.cost().weight_bytes;
    return rate(load.num_unique(), floor_seconds(work, limits));
  };
  return out;
}

// Adds three cases of one work, and two relations: the time of `score` over that of `prefill`, and over that of
// `prefill` and `head` together.
void add_cases(Scenario& scenario, Case prefill, Case head, Case score, const std::string& what) {
  const std::size_t first = scenario.cases.size();
  scenario.cases.push_back(std::move(prefill));
  scenario.cases.push_back(std::move(head));
  scenario.cases.push_back(std::move(score));
  scenario.relations.push_back({what + " over prefill", first, first + 2});
  scenario.relations.push_back({what + " over prefill and head", first, first + 2, first + 1});
}

}  // namespace

Scenario score_scenario(Subject& subject, const Sizes& sizes) {
  const std::int64_t most = subject.assembly().limits().max_model_len;
  const SequenceShape shape = sequence_of(subject, sizes, 1024, 1);
  check_at_least(2, "--prompt", shape.prompt);  // the first token has no prediction
  const std::int64_t batch = one_batch(sizes, 16);
  ChoiceLoad load{sizes.num_groups.value_or(2), 0, sizes.own.value_or(20)};
  check_at_least(1, "--groups", load.num_contexts);
  check_at_least(1, "--own", load.choice);
  load.context = sizes.shared.value_or(
      std::max<std::int64_t>(1, std::min<std::int64_t>(2000, most - 1 - kNumChoices * load.choice)));
  check_at_least(1, "--shared", load.context);
  const std::int64_t unique = load.context + kNumChoices * load.choice;
  check_fits(subject, unique, 1,
             fmt::format("--shared {} and {} times --own {}", load.context, kNumChoices, load.choice));

  if (const std::size_t further = subject.assembly().parts().further_ranks.size(); further > 0) {
    fail(
        "bench score measures the head's product on one device, but the pipeline has {} ranks; leave `devices` or "
        "`shards` out",
        further + 1);
  }
  const auto head = std::make_shared<HeadProduct>(subject);
  Scenario scenario{"score", {}, {}, subject.make_probes()};
  add_cases(scenario, prefill_case(subject, batch, shape.prompt, /*score=*/false),
            head_case(subject, head, batch * (shape.prompt - 1), batch * shape.prompt),
            prefill_case(subject, batch, shape.prompt, /*score=*/true), "score");
  add_cases(scenario, prefill_case(subject, load.num_contexts, unique, /*score=*/false),
            head_case(subject, head, load.num_scored(), load.num_unique()), choices_case(subject, load), "choices");
  return scenario;
}

}  // namespace mortise::bench
