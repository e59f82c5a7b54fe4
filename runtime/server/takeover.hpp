// runtime/server/takeover.hpp: a new process's side of a takeover (takeover_message.hpp): gets the listening socket of
// a process that serves, and tells it when this one does. Its model is loaded before it asks, so nobody waits for that,
// and a process that cannot serve has changed nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "server/takeover_socket.hpp"

namespace mortise {

class Takeover {
 public:
  struct Times {
    std::chrono::milliseconds offer{90'000};     // another takeover may be under way there
    std::chrono::milliseconds released{30'000};  // it stops accepting, which takes no time, and lets go of ports
  };

  // Asks whoever serves at the socket `path`. None: nobody does. Throws an Error when it refuses, or is no server of
  // ours.
  static std::optional<Takeover> ask(const std::string& path, Times times);
  static std::optional<Takeover> ask(const std::string& path) { return ask(path, Times()); }

  // The socket that it listens at. A descriptor that nobody has checked yet: check_listens_at() does.
  FileDescriptor take_listener() { return std::move(listener_); }
  // For the next takeover. REQUIRES: serving() has returned; until then the file is the other process's.
  TakeoverSocket take_socket() { return TakeoverSocket(path_, std::move(socket_)); }
  // Of this process: one more than the other's.
  int generation() const { return generation_ + 1; }

  // Says that this process accepts connections, and returns when the other one does not any more, or is gone. Throws an
  // Error when it serves on: then this process is to end. What has happened, for the log: {"event": "takeover", "pid",
  // "from_pid", ...}; `address` is in it.
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
