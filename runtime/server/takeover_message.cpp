#include "server/takeover_message.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<FileDescriptor> descriptors_of(msghdr& message) {
  std::vector<FileDescriptor> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
      found.emplace_back(fd);
    }
  }
  return found;
}

}  // namespace

std::string TakeoverMessage::step() const {
  const auto found = fields.find("step");
  return found != fields.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t TakeoverMessage::number(const char* name) const {
  const auto found = fields.find(name);
  if (found == fields.end() || !found->is_number_integer()) fail("its message '{}' has no number '{}'", step(), name);
  return found->get<std::int64_t>();
}

// For logs and errors: control characters of a peer's text must not reach a terminal.
std::string TakeoverMessage::text(const char* name) const {
  const auto found = fields.find(name);
  if (found == fields.end() || !found->is_string()) fail("its message '{}' has no text '{}'", step(), name);
  std::string text = found->get<std::string>().substr(0, 1000);
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

bool send_takeover_message(int socket, const nlohmann::json& fields, std::span<const int> descriptors) {
  std::string text = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  iovec bytes{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxTakeoverDescriptors * sizeof(int))> control{};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = -1;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

bool send_takeover_refusal(int socket, const std::string& reason) {
  return send_takeover_message(socket, {{"step", "refusal"}, {"reason", reason}});
}

Wait wait_until_readable(int fd, Clock::time_point deadline, int stop) {
  while (true) {
    pollfd items[] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    // An hour at a time: poll() takes an int.
    const int ready = ::poll(items, 2, static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000)));
    if (ready > 0) return items[1].revents != 0 ? Wait::kStopped : Wait::kReadable;
    if (ready < 0 && errno != EINTR) fail("poll: {}", std::strerror(errno));
    if (Clock::now() >= deadline) return Wait::kLate;
  }
}

TakeoverMessage receive_takeover_message(int socket, std::size_t max_descriptors, Clock::time_point deadline,
                                         int stop) {
  switch (wait_until_readable(socket, deadline, stop)) {
    case Wait::kLate:
      return {TakeoverMessage::State::kLate};
    case Wait::kStopped:
      return {TakeoverMessage::State::kStopped};
    case Wait::kReadable:
      break;
  }
  std::string text(kMaxTakeoverBytes, '\0');
  iovec bytes{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxTakeoverDescriptors * sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = -1;
  do size = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (size < 0 && errno == EINTR);
  if (size < 0) return {TakeoverMessage::State::kGone};
  TakeoverMessage got{TakeoverMessage::State::kHere, {}, descriptors_of(message)};
  if (size == 0) return {TakeoverMessage::State::kGone};  // or an empty packet, which no peer sends that wants to go on
  if ((message.msg_flags & MSG_TRUNC) != 0) fail("it sent a message of more than {} bytes", kMaxTakeoverBytes);
  // The kernel has closed the descriptors that found no room.
  if ((message.msg_flags & MSG_CTRUNC) != 0 || got.descriptors.size() > max_descriptors) {
    fail("it sent more than {} file descriptors with a message", max_descriptors);
  }
  text.resize(static_cast<std::size_t>(size));
  try {
    got.fields = parse_json(text);
  } catch (const Error& error) {
    fail("it sent {}, which is not a message of a takeover: {}", quote(text), error.what());
  }
  if (!got.fields.is_object()) fail("it sent {}, which is not a message of a takeover", quote(text));
  return got;
}

}  // namespace mortise
