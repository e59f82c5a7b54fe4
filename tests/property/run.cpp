// Runs mixes through the real parts. Scheduler and proposer may be test doubles: tables of this file.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "loader/catalog.hpp"
#include "mix.hpp"
#include "mortise/plan_blocks.hpp"
#include "pipeline/pipeline_script.hpp"
#include "sampling/key.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

// A scheduler that picks any valid plan: random order, random chunks, needless preemptions, pins.
struct RandomScheduler {
  std::mt19937 random;

  void plan(const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    // One that does not begin with the oldest may find no room at all; neither may the oldest, beside pins, although
    // all others were preempted for it: then whoever runs goes on.
    for (int attempt = 0; attempt < 20; ++attempt) {
      plan.num_scheduled = plan.num_preempted = plan.num_pins = 0;
      try_plan(view, plan, /*may_preempt=*/attempt < 10);
      if (plan.num_scheduled > 0) return;
    }
    plan.num_preempted = plan.num_pins = 0;
  }

  void try_plan(const mortise_schedule_view& view, mortise_schedule_plan& plan, bool may_preempt) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(view.num_seqs));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::shuffle(order.begin(), order.end(), random);
    // The oldest goes first most of the time, so that everybody ends.
    if (may_preempt && random() % 4 != 0) std::swap(*std::find(order.begin(), order.end(), 0), order.front());
    std::int32_t rows = view.token_budget;
    std::int64_t running = std::count(view.states, view.states + view.num_seqs, MORTISE_SEQ_RUNNING);
    std::set<std::int32_t> preempted;
    PlanBlocks blocks(view);
    const auto preempt = [&](std::int32_t i) {
      preempted.insert(i);
      plan.preempted[plan.num_preempted++] = i;
      blocks.preempt(i);
      --running;
    };
    for (std::size_t k = 1; may_preempt && k < order.size(); ++k) {
      if (view.states[order[k]] == MORTISE_SEQ_RUNNING && random() % 40 == 0) preempt(order[k]);
    }
    for (std::size_t k = 0; k < order.size() && rows > 0; ++k) {
      const std::int32_t i = order[k];
      if (preempted.contains(i) || (k > 0 && random() % 5 == 0)) continue;
      const bool waits = view.states[i] == MORTISE_SEQ_WAITING;
      const std::int32_t start = mortise_plan_run_begin(&view, i);
      const std::int32_t remaining = view.num_tokens[i] - start;
      std::int32_t n = std::min(remaining, rows);
      if (random() % 2 == 0) n = 1 + static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n));
      std::int32_t& drafts = plan.max_drafts[i];  // cut at random, now and then
      const bool cut = (view.flags & MORTISE_VIEW_WHOLE_DRAFTS) == 0 && random() % 3 == 0;
      drafts = view.lookahead[i];
      if (cut) drafts = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(drafts + 1));
      const auto cost = [&](std::int32_t tokens) { return tokens + (tokens == remaining ? drafts : 0); };
      const auto fits = [&](std::int32_t tokens) {
        return blocks.needed(i, start + cost(tokens)) <= blocks.num_free();
      };
      while (n > 0 && cost(n) > rows) --n;
      // The oldest always gets its room, and it alone: sequences as large as the pool would displace each other for
      // ever.
      for (std::size_t other = order.size(); may_preempt && k == 0 && i == 0 && n > 0 && other-- > 1;) {
        const bool room = fits(n) && (!waits || running < view.seq_budget);
        const std::int32_t victim = order[other];
        if (!room && view.states[victim] == MORTISE_SEQ_RUNNING && !preempted.contains(victim)) preempt(victim);
      }
      while (n > 0 && !fits(n)) --n;
      if (n == 0 || (waits && running >= view.seq_budget)) continue;
      plan.seqs[plan.num_scheduled] = i;
      plan.num_new_tokens[plan.num_scheduled++] = n;
      blocks.run(i, start + cost(n));
      rows -= cost(n);
      running += waits ? 1 : 0;
    }
    for (std::int32_t i = 0; i < view.num_seqs && random() % 8 == 0; ++i) {
      plan.pins[plan.num_pins] = i;
      plan.pin_tokens[plan.num_pins++] =
          static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(view.num_tokens[i] + 1));
    }
  }

  static const mortise_scheduler_table* table() {
    static const auto value = [] {
      mortise_scheduler_table t{};
      t.struct_size = sizeof t;
      t.events = [](mortise_scheduler*, const mortise_schedule_events*, mortise_error*) -> mortise_status {
        return MORTISE_OK;
      };
      t.plan = [](mortise_scheduler* self, const mortise_schedule_view* view, mortise_schedule_plan* plan,
                  mortise_error*) -> mortise_status {
        reinterpret_cast<RandomScheduler*>(self)->plan(*view, *plan);
        return MORTISE_OK;
      };
      return t;
    }();
    return &value;
  }
};

// A proposer that knows the answers (by the noise key, which is the choice's) and garbles some of them.
struct OracleProposer {
  std::mt19937 random;
  int correct_percent = 0;
  std::int32_t vocab_size = 0, wrong_draft = -1;
  bool fails = true;
  // tokens[i] is at position prompt_length + i.
  struct Answer {
    std::int64_t prompt_length;
    std::vector<std::int32_t> tokens;
  };
  std::map<std::uint64_t, Answer> answers;  // by noise key, made of seed and choice; the seeds of a mix differ

  mortise_status propose(const mortise_proposal_args& args) {
    if (fails && random() % 50 == 0) return MORTISE_UNAVAILABLE;  // this step then goes without
    for (std::int32_t i = 0; i < args.num_seqs; ++i) {
      const Answer& answer = answers.at(args.keys[i]);
      const std::int64_t done = args.positions[i] - answer.prompt_length;
      std::int32_t& count = args.num_drafts[i];
      for (count = 0; count < args.max_drafts[i] && random() % 8 != 0; ++count) {
        const std::size_t next = static_cast<std::size_t>(done + count);
        const bool correct = static_cast<int>(random() % 100) < correct_percent && next < answer.tokens.size();
        const auto any = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab_size));
        args.tokens[i * args.draft_stride + count] = correct                                 ? answer.tokens[next]
                                                     : wrong_draft >= 0 && random() % 2 == 0 ? wrong_draft
                                                                                             : any;
      }
    }
    return MORTISE_OK;
  }

  static const mortise_proposer_table* table() {
    static const auto value = [] {
      mortise_proposer_table t{};
      t.struct_size = sizeof t;
      t.observe = [](mortise_proposer*, const mortise_observation*, mortise_error*) -> mortise_status {
        return MORTISE_OK;
      };
      t.propose = [](mortise_proposer* self, const mortise_step*, const mortise_proposal_args* args,
                     mortise_error*) -> mortise_status {
        return reinterpret_cast<OracleProposer*>(self)->propose(*args);
      };
      return t;
    }();
    return &value;
  }
};

class Collector {
 public:
  Sink sink(std::size_t request, int choices) {
    open_ += choices;
    return [this, request](const Delta& delta) {
      const std::lock_guard lock(mutex_);
      ChoiceOutcome& outcome = outcomes_[{request, delta.choice}];
      outcome.tokens.insert(outcome.tokens.end(), delta.tokens.begin(), delta.tokens.end());
      outcome.text += delta.text;
      outcome.prompt.insert(outcome.prompt.end(), delta.prompt.begin(), delta.prompt.end());
      if (delta.finish == FinishReason::kNone) return;
      outcome.finish = delta.finish;
      outcome.error = delta.error;
      if (--open_ == 0) changed_.notify_all();
    };
  }
  // Waits until all requests have ended. REQUIRES: every sink has been made.
  Outcomes wait(bool errors_are_outcomes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ == 0; });
    for (const auto& [key, outcome] : outcomes_) {
      if (!errors_are_outcomes && !outcome.error.empty()) throw std::runtime_error(outcome.error);
    }
    return outcomes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Outcomes outcomes_;
  std::atomic<int> open_ = 0;
};

// Each request by itself: any proposer, one of them, or none, with any number of drafts.
void choose_proposers(std::vector<Request>& requests, const std::vector<ActiveProposer>& proposers,
                      std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::optional<std::string>> names = {std::nullopt, "none"};
  for (const ActiveProposer& proposer : proposers) names.emplace_back(proposer.plugin);
  for (Request& request : requests) {
    request.speculation.proposer = names[random() % names.size()];
    if (random() % 2 == 0) request.speculation.max_tokens = static_cast<std::int32_t>(random() % 9);
  }
}

std::int32_t blocks_of(const Request& request, int block_size) {
  return (static_cast<std::int32_t>(request.prompt.size()) + request.sampling.max_tokens + block_size - 1) / block_size;
}

}  // namespace

std::string model_plugin(const std::filesystem::path& checkpoint) {
  const auto type =
      nlohmann::json::parse(std::ifstream(checkpoint / "config.json")).at("model_type").get<std::string>();
  return type == "opt" || type == "gpt2" ? type : "llama";
}

// The script's proposers, and where the oracle of run_together is to draft, last, one whose place it takes: parts are
// activated for its drafts then.
std::string proposers_of(const RunConfig& config) {
  if (config.draft_percent < 0) return config.proposer;
  static const TempFolder folder;
  const std::filesystem::path log = folder.path() / "requests.log";
  std::ofstream(log) << R"({"mortise_log": 1, "pipeline": "p", "vocab_size": 1})" << '\n'
                     << R"({"prompt": [0], "choices": [{"tokens": [0]}]})" << '\n';
  const std::string room = fmt::format("oracle {{ log = '{}', max_tokens = {} }}", log.string(), config.oracle_tokens);
  const std::string_view list = "first_of {";
  if (config.proposer.empty()) return room;
  if (!config.proposer.starts_with(list)) return fmt::format("{} {}, {} }}", list, config.proposer, room);
  return fmt::format("{}, {} }}", config.proposer.substr(0, config.proposer.rfind('}')), room);
}

std::unique_ptr<Assembly> open_assembly(const std::filesystem::path& model, const RunConfig& config) {
  const std::string device =
      config.device == "cuda"
          ? fmt::format("cuda {{ graphs = {}, isa = '{}', devices = {{ {} }} }}", config.graphs, config.isa,
                        config.gpus)
          : fmt::format("{} {{ threads = {}, isa = '{}'{} }}", config.device, config.threads, config.isa,
                        config.device == "cpu"
                            ? fmt::format(", numerics = '{}', shards = {}", config.numerics, config.shards)
                            : "");
  const std::string proposers = proposers_of(config);
  const std::string proposer = proposers.empty() ? "" : ", proposer = " + proposers;
  const std::string script = fmt::format(
      "return pipeline {{ device = {}, model = {} {{ path = '{}', weights = '{}', "
      "dtype = '{}' }}, attention = {} {{ block_size = {} }}, scheduler = {} {{ max_num_seqs = {}, max_batched_tokens "
      "= {} }}, "
      "kv_cache = {{ memory = '{}', prefix_cache = {}, dtype = '{}' }}{}, "
      "speculation = {{ verify = '{}', lengths = '{}', batch_expansion = {} }}, checked = {} }}",
      device, model_plugin(model), model.string(), config.weights, config.device == "cuda" ? "bf16" : "auto",
      config.attention, config.block_size, config.scheduler, config.max_num_seqs, config.max_batched_tokens,
      config.kv_memory, config.prefix_cache, config.kv_dtype, proposer, config.verify,
      config.adaptive ? "adaptive" : "fixed", config.batch_expansion, config.checked);
  // A machine that the tests were carried to has the plugins above the program (scripts/gpu_bundle.sh).
  const std::filesystem::path built = MORTISE_BINARY_DIR;
  const std::filesystem::path folder =
      std::filesystem::exists(built / "llama.so") ? built : executable_folder().parent_path();
  const PluginCatalog catalog({folder, folder / "tests" / "property" / "remote"});
  const PipelineScript loaded = PipelineScript::from_text(script, "property", "/", catalog);
  return std::make_unique<Assembly>(loaded.pipelines().front());
}

RunReport run_together(const std::filesystem::path& model, RunConfig config, std::vector<Request> requests,
                       const Outcomes* drafts) {
  std::unique_ptr<Assembly> assembly = open_assembly(model, config);
  EngineLimits limits = assembly->limits();
  std::int32_t largest = 0, all = 0;
  for (const Request& request : requests) {
    largest = std::max(largest, blocks_of(request, config.block_size));
    all += blocks_of(request, config.block_size) * request.sampling.n;
  }
  // Drafts of the largest request may reach one block further than its last token.
  limits.num_blocks =
      std::min(limits.num_blocks, std::max(largest + 1, static_cast<std::int32_t>(all * config.pool_share)));
  if (limits.num_blocks != assembly->limits().num_blocks) {  // parts are activated for the pool that they get
    config.kv_memory = std::to_string(static_cast<std::uint64_t>(limits.num_blocks) * assembly->kv_bytes_per_block());
    assembly = open_assembly(model, config);
    limits = assembly->limits();
  }
  Parts parts = assembly->parts();
  RandomScheduler scheduler{std::mt19937(config.seed)};
  if (config.random_schedule) {
    parts.scheduler = {reinterpret_cast<mortise_scheduler*>(&scheduler), RandomScheduler::table(),
                       "scheduler 'random'"};
  }
  OracleProposer proposer{std::mt19937(config.seed + 1),
                          config.draft_percent,
                          assembly->dims().vocab_size,
                          config.wrong_draft,
                          config.drafts_fail,
                          {}};
  if (config.draft_percent >= 0) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (std::int32_t choice = 0; choice < requests[i].sampling.n; ++choice) {
        OracleProposer::Answer answer{static_cast<std::int64_t>(requests[i].prompt.size()), {}};
        for (const TokenInfo& token : drafts->at({i, choice}).tokens) answer.tokens.push_back(token.id);
        proposer.answers[noise_key(*requests[i].sampling.seed, static_cast<std::uint32_t>(choice))] = std::move(answer);
      }
    }
    ActiveProposer& part = parts.proposers.back() = {};
    part.self = reinterpret_cast<mortise_proposer*>(&proposer);
    part.api = OracleProposer::table();
    part.name = "proposer 'oracle'";
    part.plugin = "oracle";
    part.max_tokens = config.oracle_tokens;
  }
  if (config.choose_proposers) choose_proposers(requests, parts.proposers, config.seed + 2);
  EngineHooks hooks;
  hooks.verify_patience = std::chrono::milliseconds(300);  // requests may have ended when a swap wants to compare
  Engine engine(parts, limits, assembly->model_info(), assembly->tokenizer(), hooks);
  RunReport report;
  std::mt19937 swap_random(config.seed + 3);
  const auto run_all = [&] {
    Collector collector;
    std::vector<Sink> sinks;
    for (std::size_t i = 0; i < requests.size(); ++i) sinks.push_back(collector.sink(i, requests[i].sampling.n));
    const std::uint64_t num_steps = engine.stats().num_steps;
    for (std::size_t i = 0; i < requests.size(); ++i) engine.submit(requests[i], sinks[i]);
    if (config.swaps > 0) {
      try {
        const SwapCounts counts =
            swap_at_random(*assembly, engine, config.device, config.swaps, swap_random, num_steps);
        report.swaps.made += counts.made;
        report.swaps.refused += counts.refused;
        report.swaps.recomputed += counts.recomputed;
        report.swaps.verified += counts.verified;
      } catch (...) {
        collector.wait(/*errors_are_outcomes=*/true);  // the engine delivers to it
        throw;
      }
    }
    return collector.wait(config.errors_are_outcomes);
  };
  report.outcomes = run_all();
  if (config.twice) report.again = run_all();
  // If the device computes behind the host, the end of a request is reported before the step in which it ends is over.
  do {
    report.stats = engine.stats();
  } while (report.stats.num_running + report.stats.num_waiting > 0);
  return report;
}

Outcomes run_alone(const std::filesystem::path& model, const std::string& isa, const std::vector<Request>& requests,
                   const RunConfig& what) {
  RunConfig config;
  config.isa = isa;
  config.device = what.device;
  config.graphs = false;
  config.numerics = what.numerics;
  config.weights = what.weights;
  config.kv_dtype = what.kv_dtype;
  config.threads = 2;
  config.prefix_cache = false;
  const std::unique_ptr<Assembly> assembly = open_assembly(model, config);
  Engine engine(assembly->parts(), assembly->limits(), assembly->model_info(), assembly->tokenizer());
  Outcomes all;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Collector collector;
    const Sink sink = collector.sink(i, requests[i].sampling.n);
    engine.submit(requests[i], sink);
    all.merge(collector.wait(what.errors_are_outcomes));
  }
  return all;
}

}  // namespace mortise::test
