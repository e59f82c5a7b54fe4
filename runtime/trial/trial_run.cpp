#include "trial/trial_run.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "assembly/another_model.hpp"
#include "assembly/assembly.hpp"
#include "error.hpp"
#include "trial/memory_use.hpp"
#include "trial/order.hpp"
#include "trial/requests.hpp"
#include "trial/trial_model.hpp"

namespace mortise {
namespace {

constexpr std::uint64_t kAllowance = std::uint64_t{1} << 30;  // memory that any part may take
constexpr std::uint64_t kAnyMemory = std::uint64_t{1} << 40;  // for a KV cache whose number of blocks is fixed
constexpr int kNice = 5;  // the parent's streams come first, but the trial still progresses on a busy machine

// Sets up the process: it ends with its parent, yields to it, is the first to be killed if memory runs out, and leaves
// no core dump.
void be_a_trial() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpriority(PRIO_PROCESS, 0, kNice);
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

// The same pipeline with just enough room for the trial's requests. Whether the new cache has room for the served
// requests is checked by the parent.
PipelineDescription reduced(PipelineDescription pipeline, const TrialOrder& order) {
  // One thread: threads that wait for each other would hardly progress while the server keeps the cores busy. The
  // number of threads changes no result.
  const bool tries_device = order.change && order.change->key == "device";
  for (PartChoice& choice : pipeline.device.choices) {
    if (choice.options.contains("threads") && !tries_device) choice.options["threads"] = 1;
  }
  pipeline.kv_cache.populate = false;
  pipeline.kv_cache.fills_device = false;  // the serving pipeline may have filled it
  pipeline.kv_cache.memory_bytes = kAnyMemory;
  pipeline.kv_cache.most_blocks = TrialRequests::num_blocks(pipeline.block_size);
  return pipeline;
}

// Bytes of the files of draft models and the like, which parts read into memory.
std::uint64_t bytes_of_files(const PipelineDescription& pipeline) {
  std::uint64_t bytes = 0;
  for (const PartDescription& proposer : pipeline.proposers) {
    const nlohmann::json& options = proposer.choices.front().options;
    if (!options.contains("path") || !options["path"].is_string()) continue;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(options["path"].get<std::string>(), ignored)) {
      if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
    }
  }
  return bytes;
}

std::string model_folder(const PipelineDescription& pipeline) {
  return pipeline.model.choices.front().options.value("path", "");
}

// Records the first rule that a scheduler or a proposer broke.
class Breaches {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (first_.empty()) first_ = what;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    first_.clear();
  }
  void check() const {
    const std::lock_guard lock(mutex_);
    if (!first_.empty()) throw Error(first_);
  }

 private:
  mutable std::mutex mutex_;
  std::string first_;
};

// The serving parts and their answers.
class Trial {
 public:
  explicit Trial(const TrialOrder& order)
      : order_(order),
        model_(open_trial_model(model_folder(order.serving))),
        is_small_(model_.is_small),
        assembly_(reduced(order.serving, order), std::move(model_.files)),
        engine_(assembly_.parts(), assembly_.limits(), assembly_.model_info(), assembly_.tokenizer(), hooks()),
        requests_(assembly_.limits(), assembly_.dims().vocab_size, is_small_),
        expected_(requests_.run(engine_)) {}

  void try_candidate(TrialPage& page) {
    const std::uint64_t base = process_memory(::getpid());
    page.most_memory.store(2 * base + kAllowance);
    page.has_candidate.store(true);
    breaches_.forget();
    const std::optional<PipelineDescription> wanted = wanted_by(order_);
    page.is_read.store(true);
    if (!wanted) return;
    note_files(*wanted);
    if (same_pipeline(*wanted, order_.serving)) return;
    page.most_memory.store(2 * base + kAllowance + 3 * bytes_of_files(*wanted));
    if (model_folder(*wanted) != model_folder(order_.serving)) return run_alone(*wanted);
    const auto swap = [&] { assembly_.swap(engine_, reduced(*wanted, order_), {.fallback = false}); };
    try {
      compare(requests_.run(engine_, swap));
    } catch (const AnotherModelError&) {
      return run_alone(*wanted);
    }
    // Again from the beginning, with an empty prefix cache, so that the new parts compute everything.
    engine_.swap([&](const StepUse&) { return Replacement{assembly_.parts(), assembly_.limits(), false}; });
    compare(requests_.run(engine_));
  }

  // Lists the files that the parent will read, with the hashes of those that were tried.
  std::string report() const {
    return nlohmann::json({{"files", files_}}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

 private:
  // Notes the files that the parent will read: for a script those of all parts, for any other change only those of
  // parts that do not serve yet.
  void note_files(const PipelineDescription& wanted) {
    const std::vector<const Component*> serving = assembly_.components();
    const auto note = [&](const PartDescription& part) {
      for (const PartChoice& choice : part.choices) {
        const bool serves = std::ranges::find(serving, choice.component) != serving.end();
        if (order_.script || !serves) files_[choice.component->file.string()] = choice.component->hash;
      }
    };
    for (const auto* part : {&wanted.device, &wanted.model, &wanted.attention, &wanted.scheduler}) note(*part);
    for (const PartDescription& proposer : wanted.proposers) note(proposer);
  }
  EngineHooks hooks() {
    EngineHooks hooks;
    hooks.queue = QueueLimits::unbounded();
    hooks.breach = [this](const std::string& what) { breaches_.add(what); };
    return hooks;
  }
  // Another model has other answers, so the trial only checks that it has some.
  void run_alone(const PipelineDescription& wanted) {
    TrialModel model = open_trial_model(model_folder(wanted));
    Assembly assembly(reduced(wanted, order_), std::move(model.files));
    Engine engine(assembly.parts(), assembly.limits(), assembly.model_info(), assembly.tokenizer(), hooks());
    TrialRequests(assembly.limits(), assembly.dims().vocab_size, model.is_small).run(engine);
    check(engine);
  }
  void check(const Engine& engine) const {
    breaches_.check();  // first, because other errors may follow from a broken rule
    const EngineHealth health = engine.health();
    if (health.state != EngineHealth::State::kOk) throw Error(health.reason);
  }
  void compare(const TrialRequests::Answers& found) const {
    check(engine_);
    const std::optional<std::string> difference = TrialRequests::difference(expected_, found);
    if (difference)
      fail(ErrorCode::kConflict, "these parts give different tokens, which a swap does not allow: {}", *difference);
  }

  const TrialOrder& order_;
  Breaches breaches_;
  TrialModel model_;
  const bool is_small_;
  Assembly assembly_;
  Engine engine_;
  const TrialRequests requests_;
  const TrialRequests::Answers expected_;
  nlohmann::json files_ = nlohmann::json::object();
};

}  // namespace

void run_trial(SharedPage& page) {
  be_a_trial();
  record_calls(page->call);
  std::string report;
  try {
    const TrialOrder order = TrialOrder::from_text(page.order());
    Trial trial(order);
    trial.try_candidate(*page);
    report = trial.report();
  } catch (const Error& error) {
    const bool is_candidate = page->has_candidate.load();
    return page->end(is_candidate ? TrialState::kRefused : TrialState::kNotMade, error.what(),
                     static_cast<std::int32_t>(error.code()));
  } catch (const std::exception& error) {
    const bool is_candidate = page->has_candidate.load();
    return page->end(is_candidate ? TrialState::kRefused : TrialState::kNotMade, error.what(),
                     static_cast<std::int32_t>(ErrorCode::kInvalid));
  }
  page->end(TrialState::kPassed, report);  // all parts have been destroyed without a problem
}

}  // namespace mortise
