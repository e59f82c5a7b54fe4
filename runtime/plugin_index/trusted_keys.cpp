#include "plugin_index/trusted_keys.hpp"

#include <algorithm>

#include "environment.hpp"
#include "error.hpp"
#include "plugin_index/whole_file.hpp"

namespace mortise {
namespace fs = std::filesystem;

TrustedKeys TrustedKeys::standard() {
  const auto folder = environment::config_folder();
  if (!folder) fail("no folder for trusted keys is known: set HOME, or XDG_CONFIG_HOME to a whole path");
  return TrustedKeys(*folder / "mortise" / "trusted_keys");
}

std::vector<std::pair<fs::path, PublicKey>> TrustedKeys::list(std::vector<std::string>* broken) const {
  std::vector<std::pair<fs::path, PublicKey>> keys;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() != ".pem") continue;
    try {
      keys.emplace_back(path, parse_public_key(read_whole_file(path, kMaxKeyBytes)));
    } catch (const Error& bad) {
      const std::string reason = bad.what();
      if (broken != nullptr)
        broken->push_back(reason.starts_with(path.string()) ? reason : path.string() + ": " + reason);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) fail("{}: {}", folder_.string(), error.message());
  std::ranges::sort(keys, {}, [](const auto& key) { return key.first; });
  return keys;
}

std::optional<PublicKey> TrustedKeys::find(const std::string& id) const {
  for (const auto& [path, key] : list()) {
    if (key.id() == id) return key;
  }
  return std::nullopt;
}

fs::path TrustedKeys::add(const PublicKey& key) const {
  for (const auto& [path, known] : list()) {
    if (known == key) return path;
  }
  const fs::path path = folder_ / (key.id() + ".pem");
  write_whole_file(path, to_pem(key));
  return path;
}

std::vector<fs::path> TrustedKeys::remove(const std::string& id) const {
  std::vector<fs::path> removed;
  for (const auto& [path, key] : list()) {
    std::error_code error;
    if (key.id() != id) continue;
    if (!fs::remove(path, error)) fail("{}: {}", path.string(), error.message());
    removed.push_back(path);
  }
  if (removed.empty()) fail("no key {} is trusted; `mortise plugin trust` lists those that are", id);
  return removed;
}

}  // namespace mortise
