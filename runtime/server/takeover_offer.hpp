// runtime/server/takeover_offer.hpp: a serving process's side of a takeover: waits at its TakeoverSocket for a process
// that wants the listening socket (takeover_message.hpp), one at a time. Whatever that process does before it says that
// it serves, this one serves on as if nobody had asked.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "server/takeover_socket.hpp"

namespace mortise {

class TakeoverOffer {
 public:
  // What is asked of the server, on the offer's thread.
  struct Server {
    // A copy of the socket that it listens at; none: it does not any more.
    std::function<FileDescriptor()> listener;
    // The other process serves: stops accepting, lets go of ports, and begins to drain. Returns when that is done.
    std::function<void()> hand_over;
    // What has happened, for the log: {"event": "handed over", "pid", "to_pid", ...}
    std::function<void(const nlohmann::ordered_json&)> event;
  };
  struct Times {
    std::chrono::milliseconds request{10'000};  // for the first message of a process that has connected
    std::chrono::milliseconds serving{60'000};  // from the offer: the other one has loaded its model before it asks
  };

  // `generation`: 1 for a server that took over from none. The thread starts here.
  TakeoverOffer(TakeoverSocket socket, int generation, Server server, Times times);
  TakeoverOffer(TakeoverSocket socket, int generation, Server server)
      : TakeoverOffer(std::move(socket), generation, std::move(server), Times()) {}
  // Ends the thread. A process that has the sockets by then is told nothing, and serves.
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
