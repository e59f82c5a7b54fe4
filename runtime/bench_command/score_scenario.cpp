// score: measures the cost of log probabilities relative to the prefill of the same tokens plus the head's product for
// the scored rows, for all tokens of prompts, and for many choices after each of several long contexts.
#include <memory>
#include <random>

#include "bench_command/link_probe.hpp"
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

// The head of one rank, with rows to multiply.
struct RankHead {
  RankHead(const ShardParts& of_rank, const mortise_model_dims& dims, std::int32_t num_rows)
      : parts(of_rank), head(parts), hidden_memory(parts.device), rows(parts.device) {
    const auto element = static_cast<std::uint64_t>(dtype_bytes(dims.dtype));
    const auto bytes = static_cast<std::uint64_t>(num_rows) * static_cast<std::uint64_t>(dims.hidden_size) * element;
    hidden = matrix(hidden_memory.reserve(bytes), dims.dtype, num_rows, dims.hidden_size);
    std::vector<std::int32_t> numbers;
    for (std::int32_t i = 0; i < num_rows; ++i) numbers.push_back(i);
    first_row = rows.put(std::span<const std::int32_t>(numbers));
    rows.upload();
  }

  const ShardParts parts;
  HeadPass head;
  DeviceBuffer hidden_memory;
  PackedUpload rows;
  mortise_tensor hidden{};
  std::size_t first_row = 0;
};

// Measures the head's product for this many rows without the engine, which is idle meanwhile; several ranks compute and
// exchange it together. The unit is tokens/s of the work that the rows belong to, so that the figures can be compared.
class HeadProduct {
 public:
  explicit HeadProduct(Subject& subject)
      : most_(subject.assembly().limits().max_logit_rows), group_(devices_of(subject.assembly().parts())) {
    for (const ShardParts& parts : subject.assembly().parts().shards()) {
      ranks_.push_back(std::make_unique<RankHead>(parts, subject.assembly().dims(), most_));
    }
    no_rows_.struct_size = sizeof no_rows_;
  }

  double seconds(std::int64_t num_rows) {
    const double begin = steady_seconds();
    group_.run([&](std::int32_t rank) { run(rank, num_rows); });
    return steady_seconds() - begin;
  }

 private:
  void run(std::int32_t rank, std::int64_t num_rows) {
    RankHead& of_rank = *ranks_[static_cast<std::size_t>(rank)];
    mortise_step step{};
    step.struct_size = sizeof step;
    step.device = of_rank.parts.device.self;
    step.device_table = of_rank.parts.device.api;
    step.attention = of_rank.parts.attention.self;
    step.attention_table = of_rank.parts.attention.api;
    step.batch = &no_rows_;
    step.rank = rank;
    step.world = group_.world();
    step.communicator = group_.communicator(rank);
    step.collective = group_.table();
    for (std::int64_t first = 0; first < num_rows; first += most_) {
      of_rank.head.run(step, of_rank.hidden, of_rank.rows.device<std::int32_t>(of_rank.first_row),
                       std::min<std::int64_t>(most_, num_rows - first));
    }
    synchronize(of_rank.parts.device);
  }

  const std::int32_t most_;
  mortise_batch no_rows_{};
  RankGroup group_;
  std::vector<std::unique_ptr<RankHead>> ranks_;
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
    const auto logits = static_cast<double>(num_rows);
    const Work work{.operations = 2 * subject.cost().head_elements * logits, .logits = logits};
    return rate(num_tokens, floor_seconds(subject.cost(), work, limits));
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
    work *= static_cast<double>(load.num_contexts);
    work.bytes = subject.cost().weight_bytes;
    return rate(load.num_unique(), floor_seconds(subject.cost(), work, limits));
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
