#include "server/body_room.hpp"

#include "server/connection.hpp"

namespace mortise {

std::shared_ptr<void> BodyRoom::take(ServerState& state, std::size_t bytes) {
  constexpr std::size_t kSmall = 64 << 10;
  const std::size_t counted = bytes <= kSmall ? 0 : bytes;
  if (state.body_bytes.fetch_add(counted) + counted > state.options.max_bodies_bytes && counted > 0) {
    state.body_bytes -= counted;
    return nullptr;
  }
  return std::shared_ptr<BodyRoom>(new BodyRoom(state, counted));
}

BodyRoom::~BodyRoom() {
  state_.body_bytes -= bytes_;
}

}  // namespace mortise
