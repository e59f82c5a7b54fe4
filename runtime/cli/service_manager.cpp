#include "cli/service_manager.hpp"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "environment.hpp"
#include "file_descriptor.hpp"

namespace mortise {

void notify_service_manager(const std::string& state) {
  const std::optional<std::string> named = environment::read(environment::kNotifySocket);
  if (!named) return;
  const char* const path = named->c_str();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return spdlog::warn("$NOTIFY_SOCKET is longer than a socket's path can be");
  std::memcpy(address.sun_path, path, length);
  if (*path == '@') address.sun_path[0] = '\0';  // an abstract socket
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  if (::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
               size) < 0) {
    spdlog::warn("the service manager at {} is not told '{}': {}", path, state, std::strerror(errno));
  }
}

}  // namespace mortise
