#include "checkpoint/hash_sidecar.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "environment.hpp"
#include "error.hpp"
#include "hasher.hpp"
#include "json/bounded_json.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;  // room for thousands of shards
constexpr std::string_view kPrefix = "weights-", kExtension = ".json", kTemporaryMark = ".tmp-";
constexpr std::chrono::hours kAbandonedAfter{1};  // writing the file takes milliseconds

struct Content {
  std::string folder, identity, hash;

  std::string check() const {
    Hasher hasher;
    for (const std::string* field : {&folder, &identity, &hash}) hasher.add(*field);
    return hasher.hex();
  }
};

std::string dump(const Content& content) {
  const nlohmann::ordered_json json = {{"mortise_weights_hash", kVersion},
                                       {"folder", content.folder},
                                       {"identity", content.identity},
                                       {"hash", content.hash},
                                       {"check", content.check()}};
  return json.dump() + '\n';
}

std::optional<Content> read_content(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxBytes || error) return std::nullopt;
  std::ifstream stream(path, std::ios::binary);
  std::string text(kMaxBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  try {
    const nlohmann::json json = parse_json(text);
    const Content content{json.at("folder").get<std::string>(), json.at("identity").get<std::string>(),
                          json.at("hash").get<std::string>()};
    if (json.at("mortise_weights_hash") != kVersion || json.at("check") != content.check()) return std::nullopt;
    return content;
  } catch (const Error&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

// JSON holds UTF-8 only; a path may hold anything.
std::string as_utf8(const std::string& text) {
  const std::string quoted = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

// Removes files of checkpoints that no longer exist, and temporary files of killed starts.
void remove_leftovers(const fs::path& cache_folder) {
  std::error_code error;
  fs::directory_iterator entries(cache_folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().native();
    if (!name.starts_with(kPrefix)) continue;
    std::error_code ignored;
    if (name.find(kTemporaryMark) != name.npos) {
      const auto written = fs::last_write_time(entries->path(), ignored);
      if (!ignored && fs::file_time_type::clock::now() - written > kAbandonedAfter) fs::remove(*entries, ignored);
    } else if (name.ends_with(kExtension)) {
      const std::optional<Content> content = read_content(entries->path());
      if (content && fs::status(content->folder, ignored).type() == fs::file_type::not_found) {
        fs::remove(*entries, ignored);
      }
    }
  }
}

[[noreturn]] void cannot_write(const fs::path& path, const std::string& why) {
  fail("{}: cannot be written: {}", path.native(), why);
}

}  // namespace

std::optional<fs::path> HashSidecar::standard_folder() {
  const std::optional<fs::path> cache = environment::cache_folder();
  if (!cache) return std::nullopt;
  return *cache / "mortise";
}

HashSidecar::HashSidecar(const fs::path& cache_folder, const fs::path& checkpoint, std::string identity)
    : identity_(std::move(identity)) {
  std::error_code error;
  const fs::path canonical = fs::canonical(checkpoint, error);
  const std::string folder = (error ? fs::absolute(checkpoint) : canonical).native();
  path_ = cache_folder / (std::string(kPrefix) + hash_of(folder) + std::string(kExtension));
  folder_ = as_utf8(folder);
}

std::optional<std::string> HashSidecar::read() const {
  const std::optional<Content> content = read_content(path_);
  if (!content || content->folder != folder_ || content->identity != identity_) return std::nullopt;
  return content->hash;
}

void HashSidecar::write(const std::string& hash) const {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error) cannot_write(path_, error.message());
  remove_leftovers(path_.parent_path());
  std::string temporary = path_.native() + std::string(kTemporaryMark) + "XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) cannot_write(path_, std::strerror(errno));
  const std::string text = dump({folder_, identity_, hash});
  const ssize_t written = ::write(fd, text.data(), text.size());
  const int reason = written < 0 ? errno : ENOSPC;
  ::close(fd);
  if (written != static_cast<ssize_t>(text.size()) || ::rename(temporary.c_str(), path_.c_str()) != 0) {
    const int why = written == static_cast<ssize_t>(text.size()) ? errno : reason;
    ::unlink(temporary.c_str());
    cannot_write(path_, std::strerror(why));
  }
}

}  // namespace mortise
