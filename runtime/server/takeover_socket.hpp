// runtime/server/takeover_socket.hpp: the Unix socket at --takeover-socket, where a server waits for a process that
// wants to take over. Only the user of the server may use it: the file has mode 0600, and each side also asks the
// kernel for the other's user.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "file_descriptor.hpp"

namespace mortise {

// Owns the socket and its file. A takeover passes both on to the new process, including the takeovers that wait in the
// queue. Used by one thread at a time. Invariant: the file at path_ is removed only if it is still this socket's.
class TakeoverSocket {
 public:
  // Listens at `path`. Replaces a socket of this user at which no process listens, as a killed server leaves it. Throws
  // an Error if a server listens there, or if the file is another user's or not a socket.
  explicit TakeoverSocket(const std::string& path);
  // Continues with the socket of the previous process.
  // REQUIRES: check_takeover_socket().
  TakeoverSocket(const std::string& path, FileDescriptor listening);
  ~TakeoverSocket();  // removes the file, unless the socket was handed over or another file is there by now
  TakeoverSocket(TakeoverSocket&&) = default;
  TakeoverSocket& operator=(TakeoverSocket&&) = delete;

  int fd() const { return fd_.get(); }  // non-blocking
  const std::string& path() const { return path_; }
  void handed_over() { fd_.reset(); }  // From now on the file belongs to the other process.

 private:
  std::string path_;
  FileDescriptor fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// Throws an Error if `path` cannot be such a socket: it is too long, or the file there is another user's or not a
// socket. Opens nothing, so that a start can fail before it loads a model.
void check_takeover_path(const std::string& path);

// Throws an Error unless `fd`, received from another process, is a socket like those that TakeoverSocket opens.
void check_takeover_socket(int fd);

// Connects to the server at `path`; nullopt: no process listens there. Throws an Error as check_takeover_path() does,
// and if the listener belongs to another user or is another program.
std::optional<FileDescriptor> connect_to_takeover_socket(const std::string& path);

// Returns the process at the other end of the connection. Throws an Error if it belongs to another user.
pid_t peer_of_this_user(int socket);

}  // namespace mortise
