#include "bisect/traced_run.hpp"

#include <algorithm>
#include <future>
#include <mutex>
#include <utility>

#include "assembly/assembly.hpp"
#include "bisect/step_tap.hpp"
#include "engine/engine.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// Collects the results of the traced request. Deltas come on delivery threads.
class Ends {
 public:
  explicit Ends(std::size_t num_choices) : choices_(num_choices), num_open_(num_choices) {}

  void take(Delta&& delta) {
    RecordedChoice& choice = choices_[static_cast<std::size_t>(delta.choice)];
    choice.prompt = std::move(delta.prompt);
    choice.tokens = std::move(delta.tokens);
    choice.finish = delta.finish;
    choice.stop_token = delta.stop_token;
    choice.error = delta.error;
    const std::lock_guard lock(mutex_);
    if (delta.finish == FinishReason::kError && !error_) error_ = Error(delta.error, delta.code);
    if (--num_open_ == 0) done_.set_value();
  }
  std::vector<RecordedChoice> wait() {
    done_.get_future().wait();
    if (error_) throw Error(*error_);
    return std::move(choices_);
  }

 private:
  std::mutex mutex_;
  std::vector<RecordedChoice> choices_;
  std::size_t num_open_;
  std::optional<Error> error_;
  std::promise<void> done_;
};

Request prepared(Request request, const PipelineDescription& pipeline) {
  request.logprobs = request.logprobs.value_or(0);
  request.deadline.reset();
  std::optional<std::string>& drafter = request.speculation.proposer;
  const bool known =
      !drafter || *drafter == "none" ||
      std::ranges::any_of(pipeline.proposers, [&](const PartDescription& p) { return p.name == *drafter; });
  if (!known) drafter.reset();
  return request;
}

}  // namespace

TracedRun run_traced(const PipelineDescription& pipeline, std::span<const Request> requests, std::size_t traced,
                     std::optional<WantedOutput> wanted) {
  Assembly assembly(pipeline);
  if (const std::size_t further = assembly.parts().further_ranks.size(); further > 0) {
    fail("{}: bisect traces a pipeline on one device, but this one has {} ranks; leave `devices` or `shards` out",
         pipeline.where, further + 1);
  }
  // The engine numbers sequences from 1, in the order of their submission.
  std::uint64_t first_sequence = 1;
  for (std::size_t i = 0; i < traced; ++i) first_sequence += static_cast<std::uint64_t>(requests[i].sampling.n);
  const Request& request = requests[traced];
  TracedRun run;
  run.trace = std::make_unique<RowTrace>(first_sequence, request.sampling.n, std::move(wanted));
  Ends ends(static_cast<std::size_t>(request.sampling.n));
  StepTap tap(assembly.parts(), *run.trace);
  {
    EngineHooks hooks;
    hooks.name = "pipeline " + pipeline.name;
    hooks.queue = QueueLimits::unbounded();
    Engine engine(tap.parts(), assembly.limits(), assembly.model_info(), assembly.tokenizer(), hooks);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Sink sink = [](Delta&&) {};
      if (i == traced) sink = [&ends](Delta&& delta) { ends.take(std::move(delta)); };
      engine.submit(prepared(requests[i], pipeline), std::move(sink), News::kAtTheEnd);
    }
    run.result.choices = ends.wait();
  }
  run.result.request = request;
  for (const RecordedChoice& choice : run.result.choices) {
    std::vector<std::int32_t>& tokens = run.sequences.emplace_back(request.prompt);
    for (const TokenInfo& token : choice.tokens) tokens.push_back(token.id);
  }
  return run;
}

}  // namespace mortise
