#include "cli/generation.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "error.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Carries deltas from the engine's thread to the terminal's. The sink holds it too: an aborted request may still speak.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  struct Letter {
    Delta delta;
    Clock::time_point time;  // when the engine sent it: a busy machine may let the terminal's thread wait
  };
  std::deque<Letter> letters;
};

}  // namespace

Generation generate(Engine& engine, Request request, const std::function<void(const std::string&)>& on_text) {
  const auto mailbox = std::make_shared<Mailbox>();
  const auto start = Clock::now();
  const RequestId id = engine.submit(std::move(request), [mailbox](const Delta& delta) {
    const std::lock_guard lock(mailbox->mutex);
    mailbox->letters.push_back({delta, Clock::now()});
    mailbox->changed.notify_one();
  });
  Generation result;
  bool aborted = false;
  while (result.last.finish == FinishReason::kNone) {
    std::unique_lock lock(mailbox->mutex);
    // A signal handler may not notify, so look every few milliseconds.
    mailbox->changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return !mailbox->letters.empty(); });
    std::deque<Mailbox::Letter> letters;
    letters.swap(mailbox->letters);
    lock.unlock();
    if (InterruptGuard::interrupted() && !aborted) {
      engine.abort(id);
      aborted = true;
    }
    for (auto& [delta, time] : letters) {
      if (result.tokens.empty() && !delta.tokens.empty()) result.first_token_s = seconds(time - start);
      result.total_s = seconds(time - start);
      result.tokens.insert(result.tokens.end(), delta.tokens.begin(), delta.tokens.end());
      result.text += delta.text;
      if (!delta.text.empty()) on_text(delta.text);
      result.last = std::move(delta);
    }
  }
  if (result.last.finish == FinishReason::kError) throw Error(result.last.error);
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
