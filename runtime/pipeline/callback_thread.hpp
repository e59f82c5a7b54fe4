// runtime/pipeline/callback_thread.hpp: runs a script's callbacks where the caller can stop waiting for them.
//
// Lua's hooks end a callback between two instructions, never inside a C function, and one call of string.find with a
// pattern that backtracks can take longer than any request may wait. So each callback runs on a thread of its own. A
// caller whose time is up gets an error and goes on; the thread is abandoned. Nobody else may touch the Lua state while
// that thread is in it, so every callback is refused until it returns. Then the hook ends it (its time is used up), and
// callbacks are available again.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>

namespace mortise {

// Used by one thread at a time.
class CallbackThread {
 public:
  // `script`: begins the messages.
  explicit CallbackThread(std::string script) : script_(std::move(script)) {}

  // Runs `work` and throws what it throws. Throws an Error (kInternal) when it has not returned after `max_wait`, and
  // (kUnavailable), without running it, while an earlier call has not returned. REQUIRES: `work` owns whatever it uses,
  // because an abandoned one may outlive this object.
  void run(const std::string& callback, std::chrono::milliseconds max_wait, std::function<void()> work);

 private:
  std::string script_;
  std::string last_callback_;
  std::future<void> last_;  // of an abandoned call; else invalid
};

}  // namespace mortise
