// runtime/server/takeover_message.hpp: the messages with which a new process takes over from one that serves, each a
// packet of JSON over a Unix socket (SOCK_SEQPACKET):
//   new  {"takeover": [1], "step": "request", "pid", "version"}      `takeover`: the versions that it speaks
//   old  {"takeover": 1, "step": "offer", "pid", "version", "generation"}
//        with two descriptors: the TCP socket that listens, and the Unix socket at which it hears of takeovers
//   new  {"step": "serving"}      it accepts connections
//   old  {"step": "released"}     it accepts none any more, and its ports of KV events are free
// Either may say {"step": "refusal", "reason"} instead, which ends the takeover: the old process serves on. Fields that
// a version does not know are ignored. Until "serving" the old process serves as if nobody had asked.
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

struct TakeoverMessage {
  enum class State {
    kHere,
    kGone,     // the peer has closed the socket
    kLate,     // nothing came until the deadline
    kStopped,  // `stop` became readable first
  };
  State state = State::kGone;
  nlohmann::json fields = {};
  std::vector<FileDescriptor> descriptors = {};

  std::string step() const;  // "" when there is none
  // A field of that type; nothing more is known of what a peer sends. Throws an Error.
  std::int64_t number(const char* name) const;
  std::string text(const char* name) const;
};

// False: the peer is gone, or takes nothing. [any thread]
bool send_takeover_message(int socket, const nlohmann::json& fields, std::span<const int> descriptors = {});
bool send_takeover_refusal(int socket, const std::string& reason);

// Waits for a message with at most `max_descriptors`. `stop`: a descriptor that ends the wait when it is readable; -1:
// none. Throws an Error when what came is no such message; descriptors that came with it are closed. [any thread]
TakeoverMessage receive_takeover_message(int socket, std::size_t max_descriptors,
                                         std::chrono::steady_clock::time_point deadline, int stop = -1);

// Waits until `fd` is readable, until `deadline`, or until `stop` is readable.
enum class Wait { kReadable, kLate, kStopped };
Wait wait_until_readable(int fd, std::chrono::steady_clock::time_point deadline, int stop);

}  // namespace mortise
