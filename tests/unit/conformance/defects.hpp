// tests/unit/conformance/defects.hpp: what is broken in a deliberately broken plugin: the option `defect` of an
// instance.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mortise/plugin.hpp"

namespace broken {

// The defect of one instance.
class Defect {
 public:
  explicit Defect(std::string name) : name_(std::move(name)) {}
  bool is(const char* name) const { return name_ == name; }

 private:
  std::string name_;
};

inline void leak(std::size_t bytes) {
  static void* volatile last;  // the compiler may leave out an allocation that nobody sees
  last = std::malloc(bytes);
  std::memset(last, 1, bytes);
}

// As fork(). The child has the name in STRAY_NAME from the beginning, by which a test finds it, and leaves its session.
inline pid_t fork_stray() {
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  const char* const wanted = std::getenv("STRAY_NAME");
  ::prctl(PR_SET_NAME, wanted == nullptr ? "stray" : wanted);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
  } else {
    ::prctl(PR_SET_NAME, name);
  }
  return child;
}

inline pid_t start_stray() {
  const pid_t child = fork_stray();
  if (child != 0) return child;
  for (;;) ::sleep(1000);
}

// A stray whose parent has ended.
inline void start_daemon() {
  const pid_t parent = fork_stray();
  if (parent == 0) {
    start_stray();
    ::_exit(0);
  }
  ::waitpid(parent, nullptr, 0);
}

// A process that forks and ends, whose child forks and ends, and so on: it has a new id every moment.
inline void start_chain() {
  if (fork_stray() != 0) return;
  for (;;) {
    if (::fork() != 0) ::_exit(0);
  }
}

// Misdeeds that any kind of part can do in a call of a step. Returns whether the call fails without a message.
inline bool misbehave_in_step(const Defect& defect) {
  if (defect.is("throws")) throw std::string("out of a step");
  if (defect.is("exits")) std::exit(0);
  if (defect.is("exits_at_once")) ::_exit(0);
  if (defect.is("aborts")) std::abort();
  if (defect.is("starts_daemon_and_hangs")) start_daemon();
  if (defect.is("hangs") || defect.is("starts_daemon_and_hangs")) {
    for (;;) ::usleep(1000);
  }
  if (defect.is("child_eats_memory") && ::fork() != 0) {
    for (;;) ::usleep(1000);
  }
  if (defect.is("eats_memory") || defect.is("child_eats_memory")) {
    for (;;) leak(64 << 20);
  }
  if (defect.is("changes_rounding")) std::fesetround(FE_TOWARDZERO);
  if (defect.is("starts_daemon_in_step")) start_daemon();
  return defect.is("fails_silently");
}

inline int& sink_of_frees() {
  static int value;
  return value;
}

// Misdeeds of create. Returns OK, or the status with which create fails.
inline mortise_status misbehave_in_create(const Defect& defect, const mortise_host* host,
                                          const mortise_create_args* args, mortise_error* error) {
  if (defect.is("writes_null_error")) error->code = 7;
  if (defect.is("ignores_struct_size")) {
    [[maybe_unused]] static volatile int32_t sink;
    sink = args->world + static_cast<int32_t>(reinterpret_cast<std::uintptr_t>(args->option_reader));
  }
  if (defect.is("leaks_host_memory")) host->allocate(host, 100, 8);
  if (defect.is("frees_what_it_does_not_own")) host->free(host, &sink_of_frees());
  if (defect.is("asks_for_odd_alignment")) host->allocate(host, 100, 24);
  if (defect.is("needs_memory")) std::memset(host->allocate(host, 100, 8), 0, 100);
  if (defect.is("starts_thread")) {
    std::thread([] { ::sleep(1000); }).detach();
  }
  if (defect.is("starts_process")) start_stray();
  if (defect.is("leaves_file_open")) (void)::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (defect.is("grows")) leak(64 << 10);
  if (defect.is("writes_to_host")) const_cast<mortise_host*>(host)->flags = 1;
  if (defect.is("refuses_silently")) return MORTISE_INVALID_ARGUMENT;
  return MORTISE_OK;
}

// The first component of a plugin file that a broken one wraps. The file is opened once and stays open.
inline const mortise_component& component_of(const char* file) {
  static const mortise_component* const component = [file] {
    void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw mortise::Failure(MORTISE_NOT_FOUND, "create", ::dlerror());
    auto* const entry =
        reinterpret_cast<decltype(mortise_plugin_entry_v0)*>(::dlsym(library, MORTISE_PLUGIN_ENTRY_NAME));
    return entry(nullptr)->components[0];
  }();
  return *component;
}

}  // namespace broken
