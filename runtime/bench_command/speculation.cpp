#include "bench_command/speculation.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "bench_command/load.hpp"
#include "bench_command/report.hpp"
#include "bench_command/speculation_work.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

// The work of one measurement: requests, the proposer that they choose, and the pipelines with fixed and with adaptive
// lengths.
struct Work {
  std::string name, proposer;
  std::vector<Request> requests;
};

struct Pipelines {
  Subject fixed, adaptive;
};

using Change = std::function<void(PipelineDescription&)>;

SubjectChoice changed(SubjectChoice choice, const Change& change, DraftLengths lengths) {
  choice.change = [change, lengths](PipelineDescription& pipeline) {
    change(pipeline);
    pipeline.speculation.lengths = lengths;
  };
  return choice;
}

std::unique_ptr<Pipelines> open_both(const SubjectChoice& choice, const Change& change) {
  return std::unique_ptr<Pipelines>(new Pipelines{Subject(changed(choice, change, DraftLengths::kFixed), nullptr),
                                                  Subject(changed(choice, change, DraftLengths::kAdaptive), nullptr)});
}

// The samples of one side.
struct Series {
  Engine& engine;
  std::vector<Request> requests;
  SpeculationSide side;
  std::int64_t decoded = 0, drafted = 0, accepted = 0;

  void run(bool counts) {
    const SpeculationStats before = engine.stats().speculation;
    const LoadResult result = run_load(engine, requests);
    if (!counts) return;
    side.speculation.add(engine.stats().speculation.since(before));
    side.tokens_per_s.push_back(static_cast<double>(result.tokens_after_first) / (result.end_s - result.all_first_s));
    decoded += result.num_tokens - static_cast<std::int64_t>(requests.size());
    drafted += result.draft_tokens;
    accepted += result.accepted_tokens;
  }
  SpeculationSide finish() {
    side.value = median(side.tokens_per_s);
    if (drafted > 0) side.acceptance_rate = static_cast<double>(accepted) / static_cast<double>(drafted);
    // Every step of a sequence gives its accepted drafts and one more token.
    side.mean_acceptance_length = static_cast<double>(decoded) / static_cast<double>(decoded - accepted);
    return std::move(side);
  }
};

std::vector<Request> requests_of(const Work& work, std::int64_t batch, const std::string& proposer,
                                 const Sizes& sizes) {
  std::vector<Request> requests(work.requests.begin(), work.requests.begin() + batch);
  for (Request& request : requests) {
    request.speculation.proposer = proposer;
    if (sizes.draft_tokens) request.speculation.max_tokens = static_cast<std::int32_t>(*sizes.draft_tokens);
  }
  return requests;
}

SpeculationRow measure_row(Pipelines& pipelines, const Work& work, std::int64_t batch, const Sizes& sizes,
                           int repeats) {
  // Two engines in one process differ by a few percent, depending on where their memory is, so each is compared with
  // itself.
  std::array<Series, 4> series = {
      Series{pipelines.fixed.engine(), requests_of(work, batch, "none", sizes), {}},
      Series{pipelines.fixed.engine(), requests_of(work, batch, work.proposer, sizes), {}},
      Series{pipelines.adaptive.engine(), requests_of(work, batch, "none", sizes), {}},
      Series{pipelines.adaptive.engine(), requests_of(work, batch, work.proposer, sizes), {}}};
  for (Series& one : series) one.run(/*counts=*/false);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    // Runs the sides alternately forwards and backwards, so that a drift of the machine favours none.
    for (std::size_t i = 0; i < series.size(); ++i)
      series[repeat % 2 == 0 ? i : series.size() - 1 - i].run(/*counts=*/true);
  }
  SpeculationRow row{work.name,
                     work.proposer,
                     batch,
                     series[0].finish(),
                     series[1].finish(),
                     series[2].finish(),
                     series[3].finish(),
                     {},
                     {},
                     {}};
  row.fixed_speed = paired_ratio(row.none.tokens_per_s, row.fixed.tokens_per_s);
  row.adaptive_speed = paired_ratio(row.none_beside_adaptive.tokens_per_s, row.adaptive.tokens_per_s);
  // Chooses the better side from the whole row, because choosing it in each pair would pick noise.
  const auto gains = [](const SpeculationSide& none, const SpeculationSide& side) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < side.tokens_per_s.size(); ++i) {
      ratios.push_back(side.tokens_per_s[i] / none.tokens_per_s[i]);
    }
    return ratios;
  };
  row.adaptive_over_better = row.adaptive_speed;
  if (row.fixed_speed.ratio > 1) {
    row.adaptive_over_better = paired_ratio(gains(row.none, row.fixed), gains(row.none_beside_adaptive, row.adaptive));
  }
  return row;
}

std::vector<std::int64_t> batches_of(const Sizes& sizes, const Subject& subject) {
  const std::int64_t most = subject.assembly().limits().max_num_seqs;
  std::vector<std::int64_t> batches = sizes.batches;
  if (batches.empty()) batches = {1, 4, 16, 64};
  for (const std::int64_t batch : batches) {
    if (batch < 1 || batch > most) {
      fail("--batch {}: expected 1 to the scheduler's max_num_seqs {}; raise it with --set scheduler.max_num_seqs=N",
           batch, most);
    }
  }
  return batches;
}

// Runs all measurements of one `mortise bench speculation`. Used by one thread.
class SpeculationRuns {
 public:
  SpeculationRuns(const SubjectChoice& choice, const Sizes& sizes, int repeats)
      : choice_(choice),
        sizes_(sizes),
        repeats_(repeats),
        output_(static_cast<std::int32_t>(sizes.output.value_or(64))) {
    if (output_ < 2) fail("--output {}: expected 2 or more", output_);  // the first token comes from the prompt
    for (const double rate : sizes.rates) {
      if (!(rate >= 0 && rate <= 1)) fail("--rates {}: expected shares from 0 to 1", rate);
    }
  }

  std::vector<SpeculationRow> run(std::string& device) {
    if (choice_.shape == nullptr && choice_.draft_shape == nullptr && sizes_.rates.empty()) {
      measure_texts(device);
    } else {
      measure_rates(device);
    }
    return std::move(rows_);
  }

 private:
  void measure(Pipelines& pipelines, const Work& work) {
    for (const std::int64_t batch : batches_of(sizes_, pipelines.fixed)) {
      rows_.push_back(measure_row(pipelines, work, batch, sizes_, repeats_));
      // A table may take many minutes, so each row is shown at once.
      std::fputs((speculation_table({rows_.back()}) + "\n").c_str(), stderr);
    }
  }

  // Measures the proposers of the script on stories, and ngram on texts that quote their prompts.
  void measure_texts(std::string& device) {
    const auto with_ngram = [](PipelineDescription& pipeline) {
      const auto is_ngram = [](const PartDescription& part) { return part.name == "ngram"; };
      if (std::none_of(pipeline.proposers.begin(), pipeline.proposers.end(), is_ngram)) {
        pipeline.proposers.push_back(proposer("ngram", nlohmann::json::object()));
      }
    };
    const auto pipelines = open_both(choice_, with_ngram);
    device = device_text(pipelines->fixed.device());
    const Tokenizer& tokenizer = pipelines->fixed.assembly().tokenizer();
    const auto most = static_cast<std::size_t>(most_batch(pipelines->fixed));
    for (const PartDescription& part : pipelines->fixed.description().proposers) {
      if (part.name != "ngram") measure(*pipelines, {"stories", part.name, story_requests(tokenizer, most, output_)});
    }
    measure(*pipelines, {"quoted text", "ngram", quote_requests(tokenizer, most)});
  }

  // Measures oracle proposers with given acceptance rates, which works with any model, and then the cost of ngram on
  // texts where it finds nothing.
  void measure_rates(std::string& device) {
    const TemporaryFolder folder;
    const std::filesystem::path log = folder.path() / "requests.log";
    Work work{"", "oracle", {}};
    const auto prompt = static_cast<std::int32_t>(sizes_.prompt.value_or(128));
    std::vector<Request> novel;
    {
      Subject subject(
          changed(
              choice_, [](PipelineDescription& pipeline) { pipeline.proposers.clear(); }, DraftLengths::kFixed),
          nullptr);
      device = device_text(subject.device());
      const auto most = static_cast<std::size_t>(most_batch(subject));
      const std::int32_t vocab_size = subject.assembly().dims().vocab_size;
      work.requests = novel = novel_requests(vocab_size, most, prompt, output_);
      record_requests(subject.engine(), subject.assembly(), work.requests, log);
    }
    const std::vector<double> rates = sizes_.rates.empty() ? std::vector<double>{0, 0.5, 0.8, 0.95} : sizes_.rates;
    for (const double rate : rates) {
      work.name = fmt::format("rate {:.2f}", rate);
      const auto pipelines = open_both(choice_, [&](PipelineDescription& pipeline) {
        pipeline.proposers = {proposer("oracle", oracle_options(log, rate))};
      });
      measure(*pipelines, work);
    }
    const auto pipelines = open_both(choice_, [&](PipelineDescription& pipeline) {
      pipeline.proposers = {proposer("ngram", nlohmann::json::object())};
    });
    measure(*pipelines, {"no match", "ngram", std::move(novel)});
  }

  std::int64_t most_batch(const Subject& subject) const {
    const std::vector<std::int64_t> batches = batches_of(sizes_, subject);
    return *std::max_element(batches.begin(), batches.end());
  }

  nlohmann::json oracle_options(const std::filesystem::path& log, double rate) const {
    nlohmann::json options = {{"log", log.string()}, {"rate", rate}};
    if (sizes_.draft_tokens) options["max_tokens"] = *sizes_.draft_tokens;
    if (choice_.draft_shape != nullptr) options["path"] = choice_.draft_shape->name;  // not a folder: see Subject
    return options;
  }

  static PartDescription proposer(const std::string& name, const nlohmann::json& options) {
    return make_part(PluginCatalog::standard(), PartKind::kProposer, name, options, "");
  }

  const SubjectChoice choice_;
  const Sizes sizes_;
  const int repeats_;
  const std::int32_t output_;
  std::vector<SpeculationRow> rows_;
};

nlohmann::ordered_json side_json(const SpeculationSide& side) {
  return {{"tokens_per_s", side.value},
          {"samples", side.tokens_per_s},
          {"acceptance_rate", side.acceptance_rate},
          {"mean_acceptance_length", side.mean_acceptance_length},
          {"speculation", to_json(side.speculation)}};
}

nlohmann::ordered_json ratio_json(const PairedRatio& ratio) {
  nlohmann::ordered_json bound = nullptr;
  if (ratio.bound) bound = {ratio.bound->low, ratio.bound->high};
  return {{"ratio", ratio.ratio}, {"bound", std::move(bound)}};
}

std::string ratio_text(const PairedRatio& ratio) {
  const std::string text = fmt::format("{:.3f}", ratio.ratio);
  return ratio.bound ? fmt::format("{} ({:.3f} to {:.3f})", text, ratio.bound->low, ratio.bound->high) : text;
}

}  // namespace

std::vector<SpeculationRow> measure_speculation(const SubjectChoice& choice, const Sizes& sizes, int repeats,
                                                std::string& device) {
  return SpeculationRuns(choice, sizes, repeats).run(device);
}

std::string speculation_table(const std::vector<SpeculationRow>& rows) {
  std::vector<std::vector<std::string>> cells = {{"text, proposer, batch", "none tokens/s", "fixed, over none",
                                                  "adaptive, over none", "adaptive, over the better", "accepted",
                                                  "length", "adaptive accepted", "length"}};
  for (const SpeculationRow& row : rows) {
    const auto percent = [](const SpeculationSide& side) {
      return fmt::format("{:.1f} %", 100 * side.acceptance_rate);
    };
    const auto length = [](const SpeculationSide& side) { return fmt::format("{:.2f}", side.mean_acceptance_length); };
    cells.push_back({fmt::format("{}, {}, {}", row.work, row.proposer, row.batch),
                     fmt::format("{:.4g}", row.none.value), ratio_text(row.fixed_speed), ratio_text(row.adaptive_speed),
                     ratio_text(row.adaptive_over_better), percent(row.fixed), length(row.fixed), percent(row.adaptive),
                     length(row.adaptive)});
  }
  return aligned(cells);
}

nlohmann::ordered_json speculation_json(const std::vector<SpeculationRow>& rows) {
  auto json = nlohmann::ordered_json::array();
  for (const SpeculationRow& row : rows) {
    json.push_back({{"work", row.work},
                    {"proposer", row.proposer},
                    {"batch", row.batch},
                    {"none", side_json(row.none)},
                    {"fixed", side_json(row.fixed)},
                    {"none_beside_adaptive", side_json(row.none_beside_adaptive)},
                    {"adaptive", side_json(row.adaptive)},
                    {"fixed_over_none", ratio_json(row.fixed_speed)},
                    {"adaptive_over_none", ratio_json(row.adaptive_speed)},
                    {"adaptive_over_better", ratio_json(row.adaptive_over_better)}});
  }
  return json;
}

}  // namespace mortise::bench
