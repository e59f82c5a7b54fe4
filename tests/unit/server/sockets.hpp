// tests/unit/server/sockets.hpp: sockets, and the text of an error, for tests of takeovers.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "error.hpp"
#include "file_descriptor.hpp"
#include "server/takeover_message.hpp"

namespace mortise::test {

using namespace std::chrono_literals;

inline std::pair<FileDescriptor, FileDescriptor> connected_sockets() {
  int pair[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  return {FileDescriptor(pair[0]), FileDescriptor(pair[1])};
}

inline bool send_bytes(int socket, const std::string& bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// A message that is there, or comes within a time that no test is to wait for.
inline TakeoverMessage receive(int socket, std::size_t max_descriptors = kMaxTakeoverDescriptors) {
  return receive_takeover_message(socket, max_descriptors, std::chrono::steady_clock::now() + 60s);
}

// What the call throws; "" when it throws nothing.
template <typename Call>
std::string failure_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline std::size_t num_open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace mortise::test
