#include "jsonl/line_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "environment.hpp"
#include "error.hpp"

namespace mortise {

LineStore::LineStore() {
  folder_ = environment::temporary_folder();
  std::string path = folder_ + "/mortise-XXXXXX";
  fd_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd_ < 0) {
    fail("{}: a file for results cannot be made there ({}); set TMPDIR to another folder", folder_,
         std::strerror(errno));
  }
  ::unlink(path.c_str());
}

LineStore::~LineStore() {
  ::close(fd_);
}

void LineStore::add(std::string_view text) {
  std::uint64_t end = ends_.empty() ? 0 : ends_.back();
  while (!text.empty()) {
    const ssize_t written = ::pwrite(fd_, text.data(), text.size(), static_cast<off_t>(end));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fail("{}: results cannot be stored there ({}); set TMPDIR to another folder", folder_, std::strerror(errno));
    }
    end += static_cast<std::uint64_t>(written);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  ends_.push_back(end);
}

std::string LineStore::read(std::size_t number) const {
  const std::uint64_t begin = number == 0 ? 0 : ends_[number - 1];
  std::string text(ends_[number] - begin, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::pread(fd_, text.data() + done, text.size() - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("{}: stored results cannot be read ({})", folder_, std::strerror(errno));
    done += static_cast<std::size_t>(got);
  }
  return text;
}

}  // namespace mortise
