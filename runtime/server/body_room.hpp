// runtime/server/body_room.hpp: a share of the memory that a server has for the bodies of all its connections.
#pragma once

#include <cstddef>
#include <memory>

namespace mortise {

struct ServerState;

class BodyRoom {
 public:
  // Gives the bytes back when the last copy goes. nullptr: there is no room now. Small bodies always have some: so many
  // connections as the server takes hold them.
  static std::shared_ptr<void> take(ServerState& state, std::size_t bytes);
  ~BodyRoom();
  BodyRoom(const BodyRoom&) = delete;
  BodyRoom& operator=(const BodyRoom&) = delete;

 private:
  BodyRoom(ServerState& state, std::size_t bytes) : state_(state), bytes_(bytes) {}
  ServerState& state_;
  const std::size_t bytes_;
};

}  // namespace mortise
