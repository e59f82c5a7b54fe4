#include "server/body_room.hpp"

#include "server/connection.hpp"

namespace mortise {

bool BodyRoom::grow_to(std::size_t bytes) {
  constexpr std::size_t kSmall = 64 << 10;
  if (bytes <= kSmall || bytes <= bytes_) return true;
  const std::size_t more = bytes - bytes_;
  if (state_.body_bytes.fetch_add(more) + more > state_.options.max_bodies_bytes) {
    state_.body_bytes -= more;
    return false;
  }
  bytes_ = bytes;
  return true;
}

BodyRoom::~BodyRoom() {
  state_.body_bytes -= bytes_;
}

}  // namespace mortise
