// runtime/server/body_room.hpp: a share of the memory that a server has for the bodies of all its connections.
#pragma once

#include <cstddef>

namespace mortise {

struct ServerState;

class BodyRoom {
 public:
  explicit BodyRoom(ServerState& state) : state_(state) {}
  ~BodyRoom();  // gives the share back
  BodyRoom(const BodyRoom&) = delete;
  BodyRoom& operator=(const BodyRoom&) = delete;

  // Makes the share as large as a body of so many bytes needs. False: there is no room now. Bodies of up to 64 KiB are
  // not counted; the limit on connections bounds those.
  bool grow_to(std::size_t bytes);

 private:
  ServerState& state_;
  std::size_t bytes_ = 0;
};

}  // namespace mortise
