// runtime/server/takeover_message.hpp: the messages of a takeover, with which a new process takes over from the serving
// one. Each message is a packet of JSON over a Unix socket (SOCK_SEQPACKET):
//   new  {"takeover": [1], "step": "request", "pid", "version"}      `takeover`: the versions that it speaks
//   old  {"takeover": 1, "step": "offer", "pid", "version", "generation"}
//        with two descriptors: the listening TCP socket, and the Unix socket for takeovers
//   new  {"step": "serving"}      the new process accepts connections
//   old  {"step": "released"}     the old process no longer accepts connections, and its ports for KV events are free
// Either side may send {"step": "refusal", "reason"} instead, which ends the takeover: the old process goes on serving.
// Unknown fields are ignored. Until "serving", the old process serves as if nothing had been requested.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "file_descriptor.hpp"

namespace mortise {

inline constexpr int kTakeoverVersion = 1;
inline constexpr std::size_t kMaxTakeoverBytes = 4096;  // of a message
inline constexpr std::size_t kMaxTakeoverDescriptors = 2;

// A message of a takeover, or the reason why none came. Owns its descriptors; a value that can only be moved.
struct TakeoverMessage {
  enum class State {
    kHere,
    kGone,     // the peer has closed the socket
    kLate,     // no message came before the deadline
    kStopped,  // `stop` became readable first
  };
  State state = State::kGone;
  nlohmann::json fields = {};
  std::vector<FileDescriptor> descriptors = {};

  std::string step() const;  // "" when there is none
  // Returns the field as this type, without any further check. Throws an Error.
  std::int64_t number(const char* name) const;
  std::string text(const char* name) const;
};

// Returns false if the peer has gone or does not read. [any thread]
bool send_takeover_message(int socket, const nlohmann::json& fields, std::span<const int> descriptors = {});
bool send_takeover_refusal(int socket, const std::string& reason);

// Waits for a message with at most `max_descriptors` descriptors. The wait ends early if the descriptor `stop` becomes
// readable; -1: no such descriptor. Throws an Error for a malformed message, and closes its descriptors. [any thread]
TakeoverMessage receive_takeover_message(int socket, std::size_t max_descriptors,
                                         std::chrono::steady_clock::time_point deadline, int stop = -1);

// Waits until `fd` is readable, until `deadline`, or until `stop` is readable.
enum class Wait { kReadable, kLate, kStopped };
Wait wait_until_readable(int fd, std::chrono::steady_clock::time_point deadline, int stop);

}  // namespace mortise
