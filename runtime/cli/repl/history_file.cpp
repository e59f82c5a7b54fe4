#include "cli/repl/history_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "environment.hpp"
#include "error.hpp"
#include "file_descriptor.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

// O_NONBLOCK: if the file is a pipe, opening it must not wait for its other end.
FileDescriptor open_file(const fs::path& path, int flags) {
  return FileDescriptor(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0600));
}

[[noreturn]] void fail_errno(const fs::path& path) {
  fail("{}: {}", path.string(), std::strerror(errno));
}

// Returns the size of the file. Throws an Error if it is not a regular file.
std::size_t size_of(const FileDescriptor& file, const fs::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_errno(path);
  if (!S_ISREG(status.st_mode)) fail("{}: is not a file", path.string());
  return static_cast<std::size_t>(status.st_size);
}

void write_all(const FileDescriptor& file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(file.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Returns the last `limit` bytes of the file, from the beginning of a line on.
std::string read_tail(const FileDescriptor& file, std::size_t limit, const fs::path& path) {
  const std::size_t size = size_of(file, path);
  const std::size_t skipped = size > limit ? size - limit : 0;
  std::string text(size - skipped, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = ::pread(file.get(), text.data() + have, text.size() - have, static_cast<off_t>(skipped + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path);
    if (n == 0) break;  // another process has shortened it
    have += static_cast<std::size_t>(n);
  }
  text.resize(have);
  if (skipped > 0) text.erase(0, text.find('\n') == text.npos ? text.size() : text.find('\n') + 1);
  return text;
}

std::string as_line(const std::string& entry) {
  return nlohmann::json(entry).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

void make_folders(const fs::path& folder) {
  if (folder.empty() || fs::exists(folder)) return;
  make_folders(folder.parent_path());
  // The folder is private, as the XDG specification requires.
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail_errno(folder);
}

}  // namespace

std::optional<fs::path> HistoryFile::standard_path() {
  const std::optional<fs::path> state = environment::state_folder();
  if (!state) return std::nullopt;
  return *state / "mortise" / "history";
}

std::vector<std::string> HistoryFile::load() const {
  const FileDescriptor file = open_file(path_, O_RDONLY);
  if (!file) {
    if (errno == ENOENT) return {};
    fail_errno(path_);
  }
  const std::string text = read_tail(file, kMaxFileBytes, path_);
  std::vector<std::string> entries;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(start),
                                            text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                            /*allow_exceptions=*/false);
    start = end + 1;
    // libedit would take a NUL for the end of the entry.
    if (!line.is_string() || line.get_ref<const std::string&>().find('\0') != std::string::npos) continue;
    entries.push_back(line.get<std::string>());
  }
  if (entries.size() > kMaxEntries) entries.erase(entries.begin(), entries.end() - kMaxEntries);
  return entries;
}

void HistoryFile::append(const std::string& entry) {
  const std::string line = as_line(entry);
  if (line.size() > kMaxEntryBytes) return;
  try {
    make_folders(path_.parent_path());
  } catch (const fs::filesystem_error& error) {
    fail("{}: {}", path_.string(), error.code().message());
  }
  const FileDescriptor file = open_file(path_, O_RDWR | O_CREAT | O_APPEND);
  if (!file) fail_errno(path_);
  const std::size_t size = size_of(file, path_);
  ::fchmod(file.get(), 0600);  // an older file may have wider permissions
  char last = '\n';
  if (size > 0 && ::pread(file.get(), &last, 1, static_cast<off_t>(size - 1)) < 0) fail_errno(path_);
  // Writes the line at once, so that lines of several dialogues do not mix. The last line may be incomplete after a
  // full disk or a power cut.
  write_all(file, last == '\n' ? line : '\n' + line, path_);
  if (size > kMaxFileBytes) shorten();
}

// Rewrites the file with its newest half. Keeping all of kMaxFileBytes would make the next entry shorten it again.
void HistoryFile::shorten() const {
  std::vector<std::string> entries = load();
  std::string text;
  auto first = entries.end();
  for (std::size_t bytes = 0; first != entries.begin();) {
    bytes += as_line(*std::prev(first)).size();
    if (bytes > kMaxFileBytes / 2) break;
    --first;
  }
  for (; first != entries.end(); ++first) text += as_line(*first);
  const fs::path target = fs::canonical(path_);  // follows a link
  const fs::path fresh = target.string() + "." + std::to_string(::getpid());
  {
    const FileDescriptor file = open_file(fresh, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file) fail_errno(fresh);
    write_all(file, text, fresh);
  }
  if (::rename(fresh.c_str(), target.c_str()) != 0) fail_errno(target);
}

}  // namespace mortise
