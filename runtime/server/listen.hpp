// runtime/server/listen.hpp: the TCP socket at which a server listens: newly opened, or taken over from another
// process.
#pragma once

#include <cstdint>
#include <string>

#include "file_descriptor.hpp"

namespace mortise {

// Starts to listen; connections wait in the socket's queue. Throws an Error that names the address.
FileDescriptor listen_at(const std::string& host, std::uint16_t port);

// Throws an Error unless `fd` is a TCP socket that listens at `host` and `port`. Port 0 matches every port.
void check_listens_at(int fd, const std::string& host, std::uint16_t port);

// Returns the address at which a socket listens: "127.0.0.1:8000", "[::1]:8000".
std::string listening_address(int fd);

}  // namespace mortise
