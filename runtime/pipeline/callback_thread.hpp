// runtime/pipeline/callback_thread.hpp: runs a script's callbacks in such a way that the caller can stop waiting for
// them.
//
// Lua's hooks can end a callback between two instructions, but not inside a C function, and a single string.find with a
// backtracking pattern can take longer than a request may wait. So each callback runs on a thread of its own. When the
// caller's time is up, it gets an error and abandons the thread. While that thread is in the Lua state, no other may
// use the state, so every callback is refused until it returns. Then the hook ends it, since its time is used up, and
// callbacks are available again.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>

namespace mortise {

// Invariant: at most one thread is in the Lua state. Used by one thread at a time.
class CallbackThread {
 public:
  // Messages begin with `script`.
  explicit CallbackThread(std::string script) : script_(std::move(script)) {}

  // Runs `work` and throws its exceptions. Throws an Error (kInternal) if it has not returned after `max_wait`, and
  // (kUnavailable), without running it, while an earlier call has not returned.
  // REQUIRES: `work` owns everything that it uses, because an abandoned call may outlive this object.
  void run(const std::string& callback, std::chrono::milliseconds max_wait, std::function<void()> work);

 private:
  std::string script_;
  std::string last_callback_;
  std::future<void> last_;  // the abandoned call; invalid if there is none
};

}  // namespace mortise
