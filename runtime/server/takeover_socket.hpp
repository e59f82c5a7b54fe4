// runtime/server/takeover_socket.hpp: the Unix socket at --takeover-socket, where a server waits for the process that
// takes over from it. The file belongs to the user who serves, with mode 0600; each side also asks the kernel for the
// user of the other. The process that takes over gets this socket too: the file stays, whoever serves, and takeovers
// that wait in its queue are the next process's.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "file_descriptor.hpp"

namespace mortise {

class TakeoverSocket {
 public:
  // Listens at `path`. A socket of this user at which nobody listens any more, as a killed server leaves it, is
  // replaced. Throws an Error when a server listens there, and when another user's or another kind of file lies there.
  explicit TakeoverSocket(const std::string& path);
  // Goes on with the socket of the process that listened before. REQUIRES: check_takeover_socket().
  TakeoverSocket(const std::string& path, FileDescriptor listening);
  ~TakeoverSocket();  // removes the file, unless another process has the socket, or another file lies there
  TakeoverSocket(TakeoverSocket&&) = default;
  TakeoverSocket& operator=(TakeoverSocket&&) = delete;

  int fd() const { return fd_.get(); }  // non-blocking
  const std::string& path() const { return path_; }
  void handed_over() { fd_.reset(); }  // The file is the other process's from now on.

 private:
  std::string path_;
  FileDescriptor fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// Throws an Error when `path` can be no such socket: it is too long, or what lies there is another user's or another
// kind of file. Nothing is opened: for a start that is to fail before it loads a model.
void check_takeover_path(const std::string& path);

// Throws an Error unless `fd`, which another process has sent, is a socket as TakeoverSocket opens it.
void check_takeover_socket(int fd);

// Connects to whoever listens at `path`; none: nobody does. Throws an Error as check_takeover_path() does, and when the
// listener is another user's or another program's.
std::optional<FileDescriptor> connect_to_takeover_socket(const std::string& path);

// The process at the other end of a connection. Throws an Error when it is another user's.
pid_t peer_of_this_user(int socket);

}  // namespace mortise
