#include "cli/generation.hpp"

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "delivery/mailbox.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Generation generate(Engine& engine, Request request, const std::function<void(const std::string&)>& on_text) {
  // A signal handler may not notify, so look every few milliseconds.
  constexpr std::chrono::milliseconds kLook(20);
  Mailbox mailbox(request.sampling.n);
  const auto start = Clock::now();
  const RequestId id = engine.submit(std::move(request), mailbox.channel());
  Generation result;
  std::vector<Delta> deltas;
  bool aborted = false;
  while (result.last.finish == FinishReason::kNone) {
    mailbox.wait_for(kLook, deltas);
    if (InterruptGuard::interrupted() && !aborted) {
      engine.abort(id);
      aborted = true;
    }
    for (Delta& delta : deltas) {
      if (result.tokens.empty() && !delta.tokens.empty()) {
        result.first_token_s = seconds((delta.earlier.empty() ? delta.sent : delta.earlier.front().sent) - start);
      }
      result.total_s = seconds(delta.sent - start);
      result.tokens.insert(result.tokens.end(), std::move_iterator(delta.tokens.begin()),
                           std::move_iterator(delta.tokens.end()));
      result.text += delta.text;
      if (!delta.text.empty()) on_text(delta.text);
      result.last = std::move(delta);
    }
  }
  if (result.last.finish == FinishReason::kError) throw Error(result.last.error, result.last.code);
  return result;
}

std::string describe(const Generation& generation) {
  const auto num_tokens = generation.tokens.size();
  const double decode_s = generation.total_s - generation.first_token_s;
  const double rate = num_tokens > 1 && decode_s > 0 ? static_cast<double>(num_tokens - 1) / decode_s : 0;
  const Usage& usage = generation.last.usage;
  const std::string cached = usage.cached_tokens > 0 ? fmt::format(" ({} cached)", usage.cached_tokens) : "";
  const std::string drafts = usage.draft_tokens > 0
                                 ? fmt::format("; {} of {} drafts accepted", usage.accepted_tokens, usage.draft_tokens)
                                 : "";
  return fmt::format("{} tokens, {:.1f} tokens/s; first after {:.1f} ms; prompt {} tokens{}{}; {}; seed {}", num_tokens,
                     rate, generation.first_token_s * 1e3, usage.prompt_tokens, cached, drafts,
                     to_string(generation.last.finish), generation.last.seed);
}

}  // namespace mortise
