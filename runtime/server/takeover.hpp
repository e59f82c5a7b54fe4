// runtime/server/takeover.hpp: the new process's side of a takeover (takeover_message.hpp): gets the listening socket
// of the serving process, and tells it when this process serves. The new process has loaded its model before it asks:
// so no client waits for that, and a process that cannot serve changes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "server/takeover_socket.hpp"

namespace mortise {

// A takeover in progress. Used by the thread that starts the server. Invariant: until serving() returns, the other
// process serves.
class Takeover {
 public:
  struct Times {
    std::chrono::milliseconds offer{90'000};  // another takeover may be in progress there
    // The other process stops accepting, which is fast, and frees its ports.
    std::chrono::milliseconds released{30'000};
  };

  // Asks the server at the socket `path`. nullopt: no process listens there. Throws an Error if the server refuses, or
  // is another program.
  static std::optional<Takeover> ask(const std::string& path, Times times);
  static std::optional<Takeover> ask(const std::string& path) { return ask(path, Times()); }

  // The listening socket. Nothing has checked the descriptor yet; use check_listens_at().
  FileDescriptor take_listener() { return std::move(listener_); }
  // The socket for the next takeover.
  // REQUIRES: serving() has returned; until then the file belongs to the other process.
  TakeoverSocket take_socket() { return TakeoverSocket(path_, std::move(socket_)); }
  // Returns the generation of this process: one more than the other's.
  int generation() const { return generation_ + 1; }

  // Tells the other process that this one accepts connections. Returns when the other one does not accept any more, or
  // has gone. Throws an Error if the other one goes on serving; this process must then end. Returns an event for the
  // log: {"event": "takeover", "pid", "from_pid", ...}, including `address`.
  nlohmann::ordered_json serving(const std::string& address);

 private:
  Takeover() = default;

  std::string path_;
  Times times_;
  std::chrono::steady_clock::time_point begin_;
  FileDescriptor peer_, listener_, socket_;
  std::int64_t pid_ = 0;  // of the other process, with its version and generation
  std::string version_;
  int generation_ = 0;
};

}  // namespace mortise
