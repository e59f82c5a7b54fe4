#include "loader/plugin_file.hpp"

#include <fcntl.h>
#include <openssl/sha.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <boost/dll/shared_library.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "error.hpp"
#include "loader/active_part.hpp"
#include "loader/elf_file.hpp"
#include "loader/host_services.hpp"
#include "loader/nearest.hpp"
#include "loader/private_copy.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;
using Entry = decltype(mortise_plugin_entry_v0);

constexpr std::string_view kEntryPrefix = "mortise_plugin_entry_v";
constexpr std::uintmax_t kMaxPluginBytes = std::uintmax_t{2} << 30;  // twice the size of the largest GPU libraries

std::string hash_of(std::span<const char> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

// hash_of detects accidents; a pin has to withstand a forger.
void check_pin(std::span<const char> bytes, std::string_view pinned) {
  const std::string sha256 = plugin_sha256(bytes);
  if (sha256 == pinned) return;
  fail("has the SHA-256 {}, not the pinned {}; use the pinned file, or pin this one if you trust it", sha256, pinned);
}

// Requires exactly one exported symbol. Another exported symbol could be taken by, or from, another plugin. A unique
// symbol ties every copy of a plugin to the first copy: they would share static variables.
void check_exports(const ElfExports& exports) {
  if (!exports.unique.empty()) {
    fail(
        "exports GNU unique symbols ({}...), which every copy of it would share; build it with -fno-gnu-unique, as "
        "mortise_add_plugin() does",
        exports.unique.front());
  }
  bool has_entry = false;
  std::vector<std::string> others;
  for (const auto& symbol : exports.symbols) {
    if (symbol == MORTISE_PLUGIN_ENTRY_NAME) {
      has_entry = true;
    } else {
      others.push_back(symbol);
    }
  }
  for (const auto& symbol : others) {
    if (has_entry || !symbol.starts_with(kEntryPrefix)) continue;
    fail(
        "is built for plugin ABI major {}, but this mortise accepts major {}; rebuild it with this release's "
        "plugin_api",
        symbol.substr(kEntryPrefix.size()), MORTISE_ABI_MAJOR);
  }
  if (!has_entry) fail("is not a mortise plugin: it does not export {}", MORTISE_PLUGIN_ENTRY_NAME);
  if (!others.empty()) {
    const std::size_t total = others.size();
    others.resize(std::min<std::size_t>(total, 3));
    fail("exports {} symbol{} besides its entry ({}{}); hide them with a version script, as mortise_add_plugin() does",
         total, total == 1 ? "" : "s", join_names(others), total > 3 ? ", ..." : "");
  }
}

// The message of dlopen, without the private copy's name, and with advice for the usual case.
std::string load_error(std::string text, const fs::path& copy) {
  // Boost: "boost::dll::shared_library::load() failed (dlerror system message: COPY: TEXT): Bad file descriptor"
  if (const auto at = text.find("system message: "); at != std::string::npos) text = text.substr(at + 16);
  if (const auto at = text.rfind("): "); at != std::string::npos) text.resize(at);
  for (auto at = text.find(copy.string()); at != std::string::npos; at = text.find(copy.string())) {
    text.replace(at, copy.string().size() + (text.compare(at + copy.string().size(), 2, ": ") == 0 ? 2 : 0), "");
  }
  if (text.find("undefined symbol") != std::string::npos) text += "; link it with -Wl,-z,defs to find all of them";
  if (text.find("cannot open shared object") != std::string::npos) text += "; install that library";
  if (text.find("failed to map segment") != std::string::npos) {
    text += "; is " + copy.parent_path().string() + " mounted noexec? then set MORTISE_PLUGIN_COPIES to another folder";
  }
  return text;
}

// A loaded image. Kept for the life of the process and never copied, because copying a shared_library opens its path
// again.
struct Image {
  std::unique_ptr<boost::dll::shared_library> library;
  Entry* entry;
  int descriptor;  // of the mapped copy
};

Image open_image(std::span<const char> bytes, const fs::path& path) {
  const PrivateCopy copy(bytes, path.stem().string());
  const RunningCall running(lasting_text(fmt::format("plugin file {}", path.string())), "loading", CallKind::kControl);
  try {
    auto library = std::make_unique<boost::dll::shared_library>(
        copy.path(), boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
    Entry* entry = &library->get<Entry>(MORTISE_PLUGIN_ENTRY_NAME);
    return {std::move(library), entry, ::open(copy.path().c_str(), O_RDONLY | O_CLOEXEC)};
  } catch (const std::exception& error) {
    fail("cannot be loaded: {}", load_error(error.what(), copy.path()));
  }
}

const mortise_module* described_by(Entry* entry) {
  const mortise_entry_args args{sizeof args, 0, MORTISE_ABI_MINOR, MORTISE_ABI_OLDEST_MINOR, "mortise", kVersion};
  const mortise_module* module = nullptr;
  mortise_error error = empty_error();
  const mortise_status status = contain_exceptions(error, [&] {
    module = entry(&args);
    return MORTISE_OK;
  });
  if (status != MORTISE_OK) {
    fail("{}: {} ({}); a plugin's entry only returns its description", MORTISE_PLUGIN_ENTRY_NAME,
         plugin_text(error.message, sizeof error.message), status_name(status));
  }
  return module;
}

// The plugin files of the process. A global, because dlopen gives each file to the whole process.
struct Registry {
  std::mutex mutex;
  std::map<std::string, Image> images;  // by hash
  std::vector<std::unique_ptr<PluginFile>> files;
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed: static destructors may use instances
  return *instance;
}

// An empty pin takes every file.
const PluginFile& load(const fs::path& path, const fs::path& bytes_of, std::string_view pinned_sha256) {
  const std::vector<char> bytes = read_plugin_bytes(bytes_of);
  if (!pinned_sha256.empty()) check_pin(bytes, pinned_sha256);
  const std::string hash = hash_of(bytes);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const auto& file : all.files) {
    if (file->hash == hash && file->path == path) return *file;
  }
  auto image = all.images.find(hash);
  if (image == all.images.end()) {
    check_exports(read_elf_exports(bytes));
    image = all.images.emplace(hash, open_image(bytes, path)).first;
  }
  const RunningCall running(lasting_text(fmt::format("plugin file {}", path.string())), MORTISE_PLUGIN_ENTRY_NAME,
                            CallKind::kControl);
  const mortise_module* module = described_by(image->second.entry);
  auto components = check_module(module, path);
  for (Component& component : components) {
    component.hash = hash;
    component.image = image->second.descriptor;
  }
  all.files.push_back(std::make_unique<PluginFile>(PluginFile{
      path, hash, plugin_text(module->id, 200), plugin_text(module->vendor, 200), plugin_text(module->version, 64),
      plugin_text(module->license, 64), module->abi_minor, std::move(components)}));
  return *all.files.back();
}

}  // namespace

std::vector<char> read_plugin_bytes(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    fail("cannot be examined: {}; check its permissions and links", error.message());
  }
  if (!fs::exists(status)) fail("no such file");
  if (fs::is_directory(status)) fail("is a folder; name the plugin file in it");
  if (!fs::is_regular_file(status)) fail("is not a regular file");
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) fail("cannot be read: {}", error.message());
  if (size == 0) fail("is empty; build it again");
  if (size > kMaxPluginBytes) fail("has {} bytes; a plugin has at most {}; name another file", size, kMaxPluginBytes);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail("cannot be read: {}", std::strerror(errno));
  std::vector<char> bytes(size);
  if (!stream.read(bytes.data(), static_cast<std::streamsize>(size))) fail("cannot be read to its end");
  return bytes;
}

const PluginFile& load_plugin_file(const fs::path& path) {
  return load_plugin_file(path, path);
}

const PluginFile& load_plugin_file(const fs::path& path, const fs::path& bytes) {
  try {
    return load(path, bytes, "");
  } catch (const Error& error) {
    // The texts are "is empty" or "no such file" and the like; both can follow the file's name.
    fail("{}: {}", path.string(), error.what());
  }
}

const PluginFile& load_pinned_plugin_file(const fs::path& path, std::string_view sha256) {
  try {
    if (!is_sha256(sha256)) {
      fail("is pinned by \"{}\", which is not a SHA-256; give the 64 digits that `sha256sum FILE` prints", sha256);
    }
    return load(path, path, sha256);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string plugin_sha256(std::span<const char> bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string plugin_file_hash(const fs::path& path) {
  try {
    return hash_of(read_plugin_bytes(path));
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

}  // namespace mortise
