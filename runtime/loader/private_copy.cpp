#include "loader/private_copy.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "environment.hpp"
#include "error.hpp"

namespace mortise {
namespace {

void write_all(int fd, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("{}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace

PrivateCopy::PrivateCopy(std::span<const char> bytes, const std::string& stem) {
  // A static of the process, whose number is in the name: mkostemps alone may repeat the name of an unlinked file.
  static std::atomic<unsigned> counter{0};
  const std::optional<std::string> kept = environment::read(environment::kPluginCopies);
  keep_ = kept.has_value();
  const std::string folder = kept.value_or(environment::temporary_folder());
  std::string name = fmt::format("{}/mortise-{}-{}-{}-XXXXXX.so", folder, ::getpid(), counter++, stem);
  const int fd = ::mkostemps(name.data(), /*suffixlen=*/3, O_CLOEXEC);
  if (fd < 0) {
    fail("cannot make a private copy in {}: {}; set MORTISE_PLUGIN_COPIES to a folder that can be written", folder,
         std::strerror(errno));
  }
  path_ = name;
  try {
    write_all(fd, bytes);
  } catch (const Error& error) {
    ::close(fd);
    ::unlink(path_.c_str());
    fail("cannot write a private copy to {}: {}; set MORTISE_PLUGIN_COPIES to a folder with room", folder,
         error.what());
  }
  ::close(fd);
}

PrivateCopy::~PrivateCopy() {
  if (!keep_) ::unlink(path_.c_str());
}

}  // namespace mortise
