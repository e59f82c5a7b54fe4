#include "pipeline/callback_thread.hpp"

#include <system_error>
#include <thread>
#include <utility>

#include "error.hpp"

namespace mortise {

void CallbackThread::run(const std::string& callback, std::chrono::milliseconds max_wait, std::function<void()> work) {
  if (last_.valid()) {
    if (last_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      fail(ErrorCode::kUnavailable,
           "{}: {} cannot be called: an earlier call of {}, which was abandoned, has not returned; no callback of the "
           "script can run until it does",
           script_, callback, last_callback_);
    }
    last_ = {};
  }
  // Releases everything that `work` owns before the task ends, so that the waiting caller is the last owner.
  std::packaged_task<void()> task([work = std::move(work)]() mutable { std::exchange(work, nullptr)(); });
  std::future<void> end = task.get_future();
  std::thread thread;
  try {
    thread = std::thread(std::move(task));
  } catch (const std::system_error& error) {
    fail(ErrorCode::kOverloaded, "{}: {} cannot be called: no thread can be started for it: {}", script_, callback,
         error.what());
  }
  if (end.wait_for(max_wait) == std::future_status::ready) {
    thread.join();
    end.get();
    return;
  }
  thread.detach();
  last_ = std::move(end);
  last_callback_ = callback;
  fail(ErrorCode::kInternal,
       "{}: {} did not return within {} s and was abandoned; a single call of a library function took that long: "
       "simplify the patterns that it gives to string.find, match, gmatch or gsub",
       script_, callback, static_cast<double>(max_wait.count()) / 1000);
}

}  // namespace mortise
