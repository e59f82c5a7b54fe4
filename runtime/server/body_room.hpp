// runtime/server/body_room.hpp: one body's share of the memory that a server reserves for the bodies of all
// connections.
#pragma once

#include <cstddef>

namespace mortise {

struct ServerState;

// Invariant: the shares of all BodyRooms together are at most max_bodies_bytes. Used by one thread at a time.
class BodyRoom {
 public:
  explicit BodyRoom(ServerState& state) : state_(state) {}
  ~BodyRoom();  // gives the share back
  BodyRoom(const BodyRoom&) = delete;
  BodyRoom& operator=(const BodyRoom&) = delete;

  // Makes the share as large as a body of `bytes` bytes needs. Returns false if there is no room now. Bodies of up to
  // 64 KiB are not counted, because the limit on connections bounds them.
  bool grow_to(std::size_t bytes);

 private:
  ServerState& state_;
  std::size_t bytes_ = 0;
};

}  // namespace mortise
