// runtime/server/listen.hpp: the TCP socket at which a server listens: opened, or taken from another process.
#pragma once

#include <cstdint>
#include <string>

#include "file_descriptor.hpp"

namespace mortise {

// Listens; connections wait in the socket's queue. Throws an Error: of the address.
FileDescriptor listen_at(const std::string& host, std::uint16_t port);

// Throws an Error unless `fd` is a TCP socket that listens at the address `host` and `port` name; port 0 is any.
void check_listens_at(int fd, const std::string& host, std::uint16_t port);

// "127.0.0.1:8000", "[::1]:8000"
std::string listening_address(int fd);

}  // namespace mortise
