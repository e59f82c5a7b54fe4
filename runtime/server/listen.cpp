#include "server/listen.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "error.hpp"

namespace mortise {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

tcp::endpoint resolve(asio::io_context& io, const std::string& host, std::uint16_t port) {
  boost::system::error_code error;
  const auto found = tcp::resolver(io).resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty()) fail("--host {}: no address was found for this name: {}", host, error.message());
  return found.begin()->endpoint();
}

int socket_option(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, option, &value, &size) != 0) {
    fail("what was handed over is not a socket: {}", std::strerror(errno));
  }
  return value;
}

tcp::endpoint local_endpoint(int fd) {
  tcp::endpoint at;
  socklen_t size = static_cast<socklen_t>(at.capacity());
  if (::getsockname(fd, at.data(), &size) != 0) fail("a listening socket has no address: {}", std::strerror(errno));
  at.resize(size);
  return at;
}

std::string text_of(const tcp::endpoint& endpoint) {
  std::ostringstream text;
  text << endpoint;
  return text.str();
}

}  // namespace

FileDescriptor listen_at(const std::string& host, std::uint16_t port) {
  asio::io_context io;
  const tcp::endpoint at = resolve(io, host, port);
  tcp::acceptor acceptor(io);
  boost::system::error_code error;
  acceptor.open(at.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) {
    fail("cannot listen at {}:{}: {}; choose another --port or --host", host, port, error.message());
  }
  return FileDescriptor(acceptor.release());
}

void check_listens_at(int fd, const std::string& host, std::uint16_t port) {
  const int domain = socket_option(fd, SO_DOMAIN);
  if ((domain != AF_INET && domain != AF_INET6) || socket_option(fd, SO_TYPE) != SOCK_STREAM ||
      socket_option(fd, SO_ACCEPTCONN) == 0) {
    fail("the socket that was handed over is not a listening TCP socket");
  }
  asio::io_context io;
  const tcp::endpoint here = local_endpoint(fd);
  const tcp::endpoint asked = resolve(io, host, port == 0 ? here.port() : port);
  if (here != asked) {
    fail(
        "the server to take over from listens at {}, but --host and --port say {}; give its address, or start without "
        "--takeover",
        text_of(here), text_of(asked));
  }
}

std::string listening_address(int fd) {
  return text_of(local_endpoint(fd));
}

}  // namespace mortise
