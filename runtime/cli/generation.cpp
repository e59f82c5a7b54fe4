#include "cli/generation.hpp"

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "counted.hpp"
#include "delivery/mailbox.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

void add(Generation& result, Delta&& delta, Clock::time_point start) {
  if (result.tokens.empty() && !delta.tokens.empty()) {
    result.first_token_s = seconds((delta.earlier.empty() ? delta.sent : delta.earlier.front().sent) - start);
  }
  result.total_s = seconds(delta.sent - start);
  result.tokens.insert(result.tokens.end(), std::move_iterator(delta.tokens.begin()),
                       std::move_iterator(delta.tokens.end()));
  result.text += delta.text;
  result.last = std::move(delta);
}

}  // namespace

std::vector<Generation> generate_choices(Engine& engine, Request request,
                                         const std::function<void(const Delta&)>& on_news) {
  // A signal handler cannot notify a condition variable, so this polls every few milliseconds.
  constexpr std::chrono::milliseconds kLook(20);
  std::vector<Generation> results(static_cast<std::size_t>(request.sampling.n));
  Mailbox mailbox(request.sampling.n);
  const auto start = Clock::now();
  const RequestId id = engine.submit(std::move(request), mailbox.channel());
  std::vector<Delta> deltas;
  bool aborted = false;
  for (std::size_t open = results.size(); open > 0;) {
    mailbox.wait_for(kLook, deltas);
    if (InterruptGuard::interrupted() && !aborted) {
      engine.abort(id);
      aborted = true;
    }
    for (Delta& delta : deltas) {
      const auto choice = static_cast<std::size_t>(delta.choice);
      if (choice == 0) on_news(delta);
      if (delta.finish != FinishReason::kNone) --open;
      add(results[choice], std::move(delta), start);
    }
  }
  for (const Generation& result : results) {
    if (result.last.finish == FinishReason::kError) throw Error(result.last.error, result.last.code);
  }
  return results;
}

Generation generate(Engine& engine, Request request, const std::function<void(const Delta&)>& on_news) {
  return std::move(generate_choices(engine, std::move(request), on_news).front());
}

std::string describe(const Generation& generation) {
  const auto num_tokens = generation.tokens.size();
  const double decode_s = generation.total_s - generation.first_token_s;
  const double rate = num_tokens > 1 && decode_s > 0 ? static_cast<double>(num_tokens - 1) / decode_s : 0;
  const Usage& usage = generation.last.usage;
  const std::string cached = usage.cached_tokens > 0 ? fmt::format(" ({} cached)", usage.cached_tokens) : "";
  const std::string drafts = usage.draft_tokens > 0 ? fmt::format("; {} of {} accepted", usage.accepted_tokens,
                                                                  counted(usage.draft_tokens, "draft"))
                                                    : "";
  return fmt::format("{}, {:.1f} tokens/s; first after {:.1f} ms; prompt {}{}{}; {}; seed {}",
                     counted(num_tokens, "token"), rate, generation.first_token_s * 1e3,
                     counted(usage.prompt_tokens, "token"), cached, drafts, to_string(generation.last.finish),
                     generation.last.seed);
}

}  // namespace mortise
