#include "server/takeover_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "error.hpp"

namespace mortise {
namespace {

constexpr int kMaxWaiting = 8;  // takeovers in the queue; one is answered at a time

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    fail("--takeover-socket {}: the path of a Unix socket has 1 to {} bytes; give a shorter one", path,
         sizeof address.sun_path - 1);
  }
  path.copy(address.sun_path, path.size());
  return address;
}

FileDescriptor open_socket() {
  FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail("cannot open a Unix socket: {}", std::strerror(errno));
  return fd;
}

// The file at `path`; nullopt: there is none.
std::optional<struct stat> find_file(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) return found;
  if (errno == ENOENT) return std::nullopt;
  fail("--takeover-socket {}: cannot check whether the socket exists: {}", path, std::strerror(errno));
}

}  // namespace

void check_takeover_path(const std::string& path) {
  address_of(path);
  const auto found = find_file(path);
  if (!found) return;
  if (!S_ISSOCK(found->st_mode)) {
    fail("--takeover-socket {}: a file that is not a socket is there; give another path", path);
  }
  if (found->st_uid != ::geteuid()) {
    fail(
        "--takeover-socket {}: it belongs to user {}, but this process runs as {}; run it as the user who serves, or "
        "give another path",
        path, found->st_uid, ::geteuid());
  }
}

std::optional<FileDescriptor> connect_to_takeover_socket(const std::string& path) {
  check_takeover_path(path);
  const sockaddr_un address = address_of(path);
  FileDescriptor fd = open_socket();
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    peer_of_this_user(fd.get());
    return fd;
  }
  switch (errno) {
    case ENOENT:
    case ECONNREFUSED:
      return std::nullopt;
    case EPROTOTYPE:
      fail("--takeover-socket {}: another program's socket is there; give another path", path);
    case EAGAIN:
      fail("--takeover-socket {}: {} processes already wait to take over", path, kMaxWaiting);
    default:
      fail("--takeover-socket {}: cannot connect: {}", path, std::strerror(errno));
  }
}

void check_takeover_socket(int fd) {
  const auto option = [fd](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  if (option(SO_DOMAIN) != AF_UNIX || option(SO_TYPE) != SOCK_SEQPACKET || option(SO_ACCEPTCONN) != 1) {
    fail("the socket for takeovers that was handed over does not listen");
  }
}

pid_t peer_of_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    fail("the process at the other end of a takeover cannot be identified: {}", std::strerror(errno));
  }
  if (peer.uid != ::geteuid()) {
    fail("process {} of user {} and this one of user {} cannot take over from each other; run both as one user",
         peer.pid, peer.uid, ::geteuid());
  }
  return peer.pid;
}

TakeoverSocket::TakeoverSocket(const std::string& path) : path_(path) {
  if (connect_to_takeover_socket(path)) {
    fail("--takeover-socket {}: a server listens there; take over from it with --takeover, or give another path", path);
  }
  if (find_file(path)) ::unlink(path.c_str());  // the file is this user's, and no process listens
  const sockaddr_un address = address_of(path);
  fd_ = open_socket();
  // Before bind(), which creates the file with this mode, so that other users can never connect.
  if (::fchmod(fd_.get(), 0600) != 0 ||
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd_.get(), kMaxWaiting) != 0) {
    fail("--takeover-socket {}: cannot listen there: {}", path, std::strerror(errno));
  }
  const auto made = find_file(path);
  if (!made) fail("--takeover-socket {}: somebody has removed it", path);
  device_ = made->st_dev;
  inode_ = made->st_ino;
}

TakeoverSocket::TakeoverSocket(const std::string& path, FileDescriptor listening)
    : path_(path), fd_(std::move(listening)) {
  if (const auto found = find_file(path)) {
    device_ = found->st_dev;
    inode_ = found->st_ino;
  }
}

TakeoverSocket::~TakeoverSocket() {
  struct stat found {};
  if (!fd_ || ::lstat(path_.c_str(), &found) != 0) return;
  if (found.st_dev == device_ && found.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace mortise
