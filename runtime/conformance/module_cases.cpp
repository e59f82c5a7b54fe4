// runtime/conformance/module_cases.cpp: rules of loading, of the entry and of what a plugin says about itself.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "conformance/guarded_memory.hpp"
#include "conformance/stray_processes.hpp"
#include "conformance/subject.hpp"
#include "loader/module_manifest.hpp"
#include "mortise/struct_sizes.h"

extern char** environ;

namespace mortise::conformance {
namespace {

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  DIR* const open = ::opendir(folder);
  while (const dirent* entry = ::readdir(open)) names.insert(entry->d_name);
  const std::string own = std::to_string(::dirfd(open));
  ::closedir(open);
  names.erase(own);
  return names;
}

// Returns what a plugin must leave alone when it is loaded, as text.
std::map<std::string, std::string> process_state() {
  std::map<std::string, std::string> state;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGCHLD, SIGPIPE, SIGUSR1}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    state[fmt::format("the handler of {}", sigabbrev_np(signal))] =
        fmt::format("{}", reinterpret_cast<std::uintptr_t>(action.sa_sigaction));
  }
  for (char** variable = environ; *variable != nullptr; ++variable)
    state["the environment"] += *variable + std::string("\n");
  char folder[4096];
  state["the current folder"] = ::getcwd(folder, sizeof folder) == nullptr ? "" : folder;
  state["the locale"] = std::setlocale(LC_ALL, nullptr);
  state["the number of threads"] = std::to_string(names_in("/proc/self/task").size());
  state["the child processes"] = fmt::format("{}", fmt::join(child_processes(), " "));
  state["the open files"] = fmt::format("{}", fmt::join(names_in("/proc/self/fd"), " "));
  return state;
}

void loading_changes_nothing(Subject& subject) {
  const auto before = process_state();
  ::fflush(nullptr);
  const off_t written = ::lseek(STDOUT_FILENO, 0, SEEK_END);
  auto* const entry = subject.load_copy();
  const mortise_entry_args args = entry_args();
  entry(&args);
  ::fflush(nullptr);
  expect(::lseek(STDOUT_FILENO, 0, SEEK_END) == written, "loading writes to standard output or standard error");
  const auto after = process_state();
  for (const auto& [what, value] : before) expect(after.at(what) == value, "loading changes {}", what);
}

void describes_itself_to_any_host(Subject& subject) {
  auto* const entry = subject.load_copy();
  const mortise_module* first = nullptr;
  for (const std::uint32_t minor : {MORTISE_ABI_MINOR, MORTISE_ABI_MINOR + 1, MORTISE_ABI_MINOR + 90}) {
    for (const std::uint32_t size : {std::uint32_t{MORTISE_SIZE_0_6(mortise_entry_args)}, std::uint32_t{256}}) {
      GuardedPages pages(size);
      const mortise_entry_args args{size, 0, minor, MORTISE_ABI_OLDEST_MINOR, "another_host", "99.0"};
      std::memcpy(pages.data(), &args, std::min<std::size_t>(size, sizeof args));
      pages.make_read_only();
      const mortise_module* const module = entry(static_cast<const mortise_entry_args*>(pages.data()));
      expect(module != nullptr, "the entry refuses a host of minor {}", minor);
      if (first == nullptr) first = module;
      expect(module == first, "the entry returns another address at its second call");
    }
  }
  expect(first->num_components >= 1, "the module has {} components", first->num_components);
}

bool is_line_of_text(const char* text, std::size_t most) {
  if (text == nullptr) return false;
  const std::size_t size = strnlen(text, most + 1);
  if (size == 0 || size > most) return false;
  return std::all_of(text, text + size, [](unsigned char c) { return c >= ' ' && c != 0x7f; });
}

void texts_are_lines(Subject& subject) {
  const PluginFile& file = subject.file();
  for (const auto& [name, text] : {std::pair("id", &file.id), std::pair("vendor", &file.vendor),
                                   std::pair("version", &file.version), std::pair("license", &file.license)}) {
    expect(is_line_of_text(text->c_str(), 200), "the module's {} is empty, longer than 200 bytes or not one line",
           name);
  }
  expect(file.id.find('.') != std::string::npos, "the module's id '{}' has no dot; use a reverse domain name", file.id);
  expect(is_line_of_text(subject.component().abi->summary, 200),
         "the summary is empty, longer than 200 bytes or not one line");
}

void claims_only_capabilities_of_its_kind(Subject& subject) {
  constexpr std::uint64_t kCommon = MORTISE_CAP_EXACT | MORTISE_CAP_CAPTURE;
  static const std::map<PartKind, std::uint64_t> kAllowed = {
      {PartKind::kDevice, kCommon},
      {PartKind::kModel, kCommon},
      {PartKind::kAttention,
       kCommon | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_CASCADE | MORTISE_CAP_SLIDING_WINDOW | MORTISE_CAP_PAIRS},
      {PartKind::kProposer, kCommon | MORTISE_CAP_NEEDS_HIDDEN | MORTISE_CAP_TREE | MORTISE_CAP_DISTRIBUTION},
      {PartKind::kScheduler, kCommon | MORTISE_CAP_PREFIX_GROUPS}};
  const std::uint64_t others = subject.component().capabilities & ~kAllowed.at(subject.component().kind);
  expect(others == 0, "capabilities has {}, which a {} cannot have", fmt::join(capability_words(others), ", "),
         kind_name(subject.component().kind));
}

void numerics_id_belongs_to_attention(Subject& subject) {
  const Component& component = subject.component();
  if (component.kind == PartKind::kAttention) {
    expect(!component.numerics_id.empty(),
           "an attention must say which arithmetic it computes, but numerics_id is NULL");
  } else {
    expect(component.abi->numerics_id == nullptr, "numerics_id is '{}'; for this kind it must be NULL",
           component.numerics_id);
  }
}

void unknown_extensions_are_null(Subject& subject) {
  const auto part = subject.make();
  for (const char* id : {"", "mortise.unknown/1", "mortise.sequences/99", "mortise.sequences/1x", "mortise.sequences",
                         "mortise.device.graph/1/", "org.example.nothing/1"}) {
    expect(part->get_ext(id) == nullptr, "get_ext(\"{}\") is not NULL", id);
  }
}

void supports_is_pure(Subject& subject) {
  mortise_query query{};
  query.struct_size = sizeof query;
  const auto first = subject.component().refusal(query);
  for (int i = 0; i < 3; ++i) {
    expect(subject.component().refusal(query) == first, "supports gives different answers to the same query");
  }
  GuardedPages pages(256);  // of a newer host
  query.struct_size = 256;
  std::memcpy(pages.data(), &query, sizeof query);
  pages.make_read_only();
  mortise_error reason = empty_error();
  const mortise_status status = subject.component().abi->supports(static_cast<mortise_query*>(pages.data()), &reason);
  expect((status == MORTISE_OK) == !first.has_value(), "supports gives a different answer to a newer host");
  subject.component().abi->supports(static_cast<mortise_query*>(pages.data()), nullptr);
}

void supports_gives_a_reason(Subject& subject) {
  mortise_query query{};
  query.struct_size = sizeof query;
  query.device = "no_such_device";
  mortise_error reason = empty_error();
  if (subject.component().abi->supports(&query, &reason) == MORTISE_OK) return;  // it runs on any device
  expect(reason.message[0] != '\0' && std::memchr(reason.message, '\0', sizeof reason.message) != nullptr,
         "supports refuses a pipeline without a message");
}

// A host reads the same description with and without running the plugin's code.
void manifest_is_true(Subject& subject) {
  const auto manifest = read_module_manifest(subject.bytes());
  if (!manifest) throw NotApplicable("it has no manifest; see mortise/manifest.h");
  const PluginFile& file = subject.file();
  expect(manifest->id == file.id && manifest->version == file.version && manifest->vendor == file.vendor &&
             manifest->license == file.license && manifest->abi_minor == file.abi_minor,
         "the manifest describes the module {} {}, but the loaded file is {} {}", manifest->id, manifest->version,
         file.id, file.version);
  expect(manifest->components.size() == file.components.size(), "the manifest has {} components, the loaded file {}",
         manifest->components.size(), file.components.size());
  for (std::size_t i = 0; i < file.components.size(); ++i) {
    const ComponentManifest& told = manifest->components[i];
    const Component& loaded = file.components[i];
    expect(static_cast<PartKind>(told.kind) == loaded.kind && told.name == loaded.name &&
               told.summary == loaded.summary && told.capabilities == loaded.capabilities &&
               told.numerics_id == loaded.numerics_id && told.options_schema == loaded.abi->options_schema,
           "the manifest's component {} is '{}', which differs from the loaded one, '{}'", i, told.name, loaded.name);
  }
}

constexpr Case kModuleCases[] = {
    {"load.quiet",
     "Loading the file changes nothing in the process, starts no thread and no process, and writes nothing.", kOfFile,
     loading_changes_nothing},
    {"entry.hosts", "The entry returns the same description at every call, also to newer hosts.", kOfFile,
     describes_itself_to_any_host},
    {"metadata.manifest",
     "The manifest, which is read without running the file, equals the description that the loaded file gives.", kOfAll,
     manifest_is_true},
    {"metadata.texts", "Id, vendor, version, license and summary are lines of text.", kOfAll, texts_are_lines},
    {"metadata.capabilities", "The component claims only capabilities that its kind can have.", kOfAll,
     claims_only_capabilities_of_its_kind},
    {"metadata.numerics", "An attention, and no other kind, has a numerics id.", kOfAll,
     numerics_id_belongs_to_attention},
    {"extensions.unknown", "get_ext returns NULL for every id that the component does not know.", kOfAll,
     unknown_extensions_are_null},
    {"supports.pure", "supports gives the same answer to the same query, also to a newer host and without an error.",
     kOfAll, supports_is_pure},
    {"supports.reason", "supports refuses only with a message.", kOfAll, supports_gives_a_reason},
};

}  // namespace

std::span<const Case> module_cases() {
  return kModuleCases;
}

}  // namespace mortise::conformance
