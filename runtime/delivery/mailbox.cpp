#include "delivery/mailbox.hpp"

namespace mortise {

Mailbox::Mailbox(std::int32_t num_choices)
    : channel_(std::make_shared<PulledChannel>(num_choices, [bell = bell_] {
        const std::lock_guard lock(bell->mutex);
        bell->rung = true;
        bell->rings.notify_one();
      })) {}

void Mailbox::wait_for(std::chrono::milliseconds timeout, std::vector<Delta>& deltas) {
  {
    std::unique_lock lock(bell_->mutex);
    bell_->rings.wait_for(lock, timeout, [&] { return bell_->rung; });
  }
  channel_->take(deltas);
  const std::lock_guard lock(bell_->mutex);
  bell_->rung = !channel_->arm();  // a delta that came after take() does not ring again
}

}  // namespace mortise
