// runtime/cli/plugin/install.cpp: `mortise plugin install`: verifies, checks and installs a plugin from elsewhere.
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "cli/plugin/check_options.hpp"
#include "cli/plugin/commands.hpp"
#include "cli/plugin/index_options.hpp"
#include "cli/plugin/passed_check.hpp"
#include "cli/plugin/source.hpp"
#include "conformance/suite.hpp"
#include "error.hpp"
#include "file_descriptor.hpp"
#include "json/bounded_json.hpp"
#include "loader/catalog.hpp"
#include "loader/module_manifest.hpp"
#include "plugin_index/publication.hpp"
#include "plugin_index/trusted_keys.hpp"
#include "plugin_index/verified_plugin.hpp"
#include "plugin_index/whole_file.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

struct InstallOptions {
  IndexOptions index;
  std::string wanted, sha256, folder, check_options;
};

// A plugin whose origin is known, but none of whose code has run.
struct Verified {
  std::string sha256, bytes;
  std::string name, version;  // of its first part, as its entry says; empty: it has no entry
  nlohmann::json check_options = nlohmann::json::object();
};

// Takes a file whose hash the operator gave.
Verified take_pinned(const InstallOptions& options) {
  Verified plugin;
  plugin.sha256 = options.sha256;
  plugin.bytes = read_source(options.wanted, static_cast<std::size_t>(kMaxPluginFileBytes), options.index.ca_file);
  const std::string found = plugin_sha256(plugin.bytes);
  if (found == options.sha256) return plugin;
  fail("{}: has the SHA-256 {}, not {} as --sha256 says", options.wanted, found, options.sha256);
}

Signature read_signature(const std::string& location, const InstallOptions& options) {
  const std::string text = read_source(location, kMaxSignatureBytes, options.index.ca_file);
  try {
    return parse_signature(text);
  } catch (const Error& error) {
    fail("{}: {}", location, error.what());
  }
}

Verified take_signed(const std::string& location, const InstallOptions& options) {
  const std::string text = read_source(location, kMaxEntryBytes, options.index.ca_file);
  const Signature signature = read_signature(signature_file(location), options);
  try {
    const VerifiedEntry verified = verified_entry(text, signature, TrustedKeys::standard());
    const IndexEntry& entry = verified.entry;
    fmt::print("entry      {} {} of {}\nsignature  by the trusted key {}\n", entry.parts.front().name, entry.version,
               entry.vendor, verified.key_id);
    const std::string reason = unusable_here(entry.abi_major, entry.abi_minor, entry.platform);
    if (!reason.empty()) throw Error(reason);
    if (!options.sha256.empty() && options.sha256 != entry.sha256) {
      fail("its plugin's hash is {}, but --sha256 asks for {}", entry.sha256, options.sha256);
    }
    const auto size = static_cast<std::size_t>(entry.size);
    Verified plugin{entry.sha256, read_source(beside(location, entry.file), size, options.index.ca_file),
                    entry.parts.front().name, entry.version, entry.check.options};
    check_plugin_bytes(entry, plugin.bytes);
    return plugin;
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", location, error.what());
  }
}

// Takes NAME, NAME@VERSION, or the location of an entry or of a plugin file.
Verified take(const InstallOptions& options) {
  const std::string& wanted = options.wanted;
  if (wanted.ends_with(".json")) return take_signed(wanted, options);
  if (wanted.ends_with(".so")) {
    if (!options.sha256.empty()) return take_pinned(options);
    fail(
        "{}: nobody vouches for a plugin file alone: name its signed entry, which ends in .json, or give the hash of "
        "a file that you trust with --sha256 (sha256sum FILE)",
        wanted);
  }
  if (wanted.find('/') != std::string::npos) {
    fail("{}: name an entry that ends in .json, a plugin file that ends in .so, or a plugin of the index", wanted);
  }
  const std::size_t at = std::min(wanted.find('@'), wanted.size());
  const std::string version = at == wanted.size() ? "" : wanted.substr(at + 1);
  if (at + 1 == wanted.size()) fail("{}: a version is missing after the @", wanted);
  const auto lines = read_index(options.index);
  const IndexLine& line = find_line(lines, wanted.substr(0, at), version);
  Verified plugin = take_signed(inside(index_location(options.index), line.entry), options);
  if (plugin.name != line.parts.front().name || plugin.version != line.version) {
    fail("{} is the entry of '{}' {}, but the index says '{}' {}", line.entry, plugin.name, plugin.version,
         line.parts.front().name, line.version);
  }
  return plugin;
}

// Refuses the name if a folder that is searched earlier has such a plugin, because the installed one would never be
// found.
void refuse_known_name(const std::string& name, const fs::path& folder) {
  std::vector<fs::path> folders = PluginCatalog::standard().folders();
  std::error_code error;
  std::erase_if(folders, [&](const fs::path& other) { return fs::equivalent(other, folder, error); });
  const auto found = PluginCatalog(folders).find(name);
  if (found.components.empty()) return;
  fail("scripts would still find the '{}' of {}; remove that file, or install into another folder with --to", name,
       found.components.front()->file.string());
}

// A file in memory, so that nothing stays behind when the check is interrupted. Invariant: path() has these bytes.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : file_(::memfd_create("plugin", MFD_CLOEXEC)) {
    std::size_t written = 0;
    while (file_ && written < bytes.size()) {
      const ssize_t size = ::write(file_.get(), bytes.data() + written, bytes.size() - written);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) break;
      written += static_cast<std::size_t>(size);
    }
    if (written < bytes.size()) fail("no memory for the plugin's {} bytes: {}", bytes.size(), std::strerror(errno));
  }
  fs::path path() const { return fmt::format("/proc/self/fd/{}", file_.get()); }

 private:
  FileDescriptor file_;
};

// Runs the plugin's code for the first time, in processes of its own. Returns the name of its first part, by which
// scripts find its file.
std::string check_verified(const Verified& plugin, const std::string& wanted) {
  const MemoryFile file(plugin.bytes);
  passed_check(file.path(), wanted, "quick", plugin.check_options);
  std::string name = conformance::describe_file({.file = file.path()}, {}).front().name;
  if (plugin.name.empty() || name == plugin.name) return name;
  fail("the entry says that the plugin's first part is '{}', but it is '{}'; ask its author to publish it again",
       plugin.name, name);
}

void install_plugin(InstallOptions& options) {
  const auto folder = options.folder.empty() ? PluginCatalog::user_folder() : fs::path(options.folder);
  if (!folder) fail("no folder for plugins is known: give --to FOLDER, or set HOME or XDG_DATA_HOME");
  std::ranges::transform(options.sha256, options.sha256.begin(), [](char c) { return std::tolower(c); });
  if (!options.sha256.empty() && !is_sha256(options.sha256)) {
    fail("--sha256 {}: expected the 64 hexadecimal digits that sha256sum prints", quote(options.sha256));
  }
  Verified plugin = take(options);
  const bool is_searched = options.folder.empty();
  if (is_searched && !plugin.name.empty()) refuse_known_name(plugin.name, *folder);
  fmt::print("sha256     {}\n", plugin.sha256);
  std::fflush(stdout);
  if (!options.check_options.empty()) plugin.check_options = read_plugin_options(options.check_options);
  const std::string name = check_verified(plugin, options.wanted);
  if (is_searched) refuse_known_name(name, *folder);
  const fs::path path = *folder / (name + ".so");
  if (const auto old = manifest_if_readable(path)) {
    fmt::print("replaces   {}\n", plugin_text(old->version.c_str(), 64));
  }
  write_whole_file(path, plugin.bytes);
  fmt::print("installed  {}\nin a script: plugin {{ \"{}\", sha256 = \"{}\" }} {{ ... }}\n", path.string(), name,
             plugin.sha256);
  if (!is_searched) fmt::print("with MORTISE_PLUGIN_PATH={}\n", fs::absolute(*folder).lexically_normal().string());
}

}  // namespace

void add_plugin_install_command(CLI::App& plugin) {
  CLI::App* command = plugin.add_subcommand(
      "install", "install a plugin that a trusted key signed, or whose hash you give, if it passes the check");
  auto options = std::make_shared<InstallOptions>();
  command
      ->add_option("plugin", options->wanted,
                   "NAME or NAME@VERSION of the index; or the url or path of an entry (.json), or of a plugin file "
                   "(.so, with --sha256)")
      ->required();
  add_index_options(*command, options->index);
  command->add_option("--sha256", options->sha256, "the hash that the plugin file must have")->check(kNotEmpty);
  command
      ->add_option("--to", options->folder,
                   "folder to install into (default: $XDG_DATA_HOME/mortise/plugins, which is searched last)")
      ->check(kNotEmpty);
  command->add_option("--options", options->check_options,
                      "the component's options for the check as a JSON object (default: those of the entry)");
  command->callback([options] { install_plugin(*options); });
}

}  // namespace mortise
