#include "cli/generation.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <memory>
#include <mutex>

#include "error.hpp"

namespace mortise {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;  // a signal handler can reach nothing else

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Carries deltas from the engine's thread to the terminal's. The sink holds it too: an aborted request may still speak.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Delta> deltas;
};

}  // namespace

InterruptGuard::InterruptGuard() : previous_(std::signal(SIGINT, [](int) { g_interrupted = 1; })) {
  clear();
}
InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, previous_);
}
bool InterruptGuard::interrupted() {
  return g_interrupted != 0;
}
void InterruptGuard::clear() {
  g_interrupted = 0;
}

Generation generate(Engine& engine, Request request, const std::function<void(const std::string&)>& on_text) {
  const auto mailbox = std::make_shared<Mailbox>();
  const auto start = Clock::now();
  const RequestId id = engine.submit(std::move(request), [mailbox](const Delta& delta) {
    const std::lock_guard lock(mailbox->mutex);
    mailbox->deltas.push_back(delta);
    mailbox->changed.notify_one();
  });
  Generation result;
  bool aborted = false;
  while (result.last.finish == FinishReason::kNone) {
    std::unique_lock lock(mailbox->mutex);
    // A signal handler may not notify, so look every few milliseconds.
    mailbox->changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return !mailbox->deltas.empty(); });
    std::deque<Delta> deltas;
    deltas.swap(mailbox->deltas);
    lock.unlock();
    if (InterruptGuard::interrupted() && !aborted) {
      engine.abort(id);
      aborted = true;
    }
    for (Delta& delta : deltas) {
      if (result.tokens.empty() && !delta.tokens.empty()) result.first_token_s = seconds_since(start);
      result.tokens.insert(result.tokens.end(), delta.tokens.begin(), delta.tokens.end());
      result.text += delta.text;
      if (!delta.text.empty()) on_text(delta.text);
      result.last = std::move(delta);
    }
  }
  result.total_s = seconds_since(start);
  if (result.last.finish == FinishReason::kError) throw Error(result.last.error);
  return result;
}

std::string describe(const Generation& generation) {
  const auto num_tokens = generation.tokens.size();
  const double decode_s = generation.total_s - generation.first_token_s;
  const double rate = num_tokens > 1 && decode_s > 0 ? static_cast<double>(num_tokens - 1) / decode_s : 0;
  return fmt::format("{} tokens, {:.1f} tokens/s; first after {:.1f} ms; prompt {} tokens; {}; seed {}", num_tokens,
                     rate, generation.first_token_s * 1e3, generation.last.usage.prompt_tokens,
                     to_string(generation.last.finish), generation.last.seed);
}

}  // namespace mortise
