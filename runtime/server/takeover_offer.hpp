// runtime/server/takeover_offer.hpp: the serving process's side of a takeover. Waits at its TakeoverSocket for a
// process that wants the listening socket (takeover_message.hpp), one at a time.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "server/takeover_socket.hpp"

namespace mortise {

// Owns the waiting thread. Invariant: until the other process says that it serves, this server serves as if nothing had
// been requested.
class TakeoverOffer {
 public:
  // The functions of the server that the offer's thread calls.
  struct Server {
    // A copy of the listening socket; invalid if the server does not listen any more.
    std::function<FileDescriptor()> listener;
    // The other process serves: stops accepting, frees ports, and begins to drain. Returns when that is done.
    std::function<void()> hand_over;
    // Logs an event: {"event": "handed over", "pid", "to_pid", ...}
    std::function<void(const nlohmann::ordered_json&)> event;
  };
  struct Times {
    std::chrono::milliseconds request{10'000};  // for the first message of a connected process
    std::chrono::milliseconds serving{60'000};  // after the offer; the other process has loaded its model already
  };

  // Starts the thread. `generation` is 1 for a server that took over from no other.
  TakeoverOffer(TakeoverSocket socket, int generation, Server server, Times times);
  TakeoverOffer(TakeoverSocket socket, int generation, Server server)
      : TakeoverOffer(std::move(socket), generation, std::move(server), Times()) {}
  // Ends the thread. A process that already has the sockets is not told, and serves.
  ~TakeoverOffer();
  TakeoverOffer(const TakeoverOffer&) = delete;
  TakeoverOffer& operator=(const TakeoverOffer&) = delete;

 private:
  void run();
  bool serve(int peer);  // whether the peer has taken over
  bool hand_over(int peer, pid_t pid, const std::string& version, std::chrono::steady_clock::time_point begin);

  TakeoverSocket socket_;
  const int generation_;
  const Server server_;
  const Times times_;
  FileDescriptor stop_;
  std::thread thread_;
};

}  // namespace mortise
