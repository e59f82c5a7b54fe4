// runtime/conformance/life_cases.cpp: rules of an instance's life: struct sizes of other hosts, memory, threads and
// files.
#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <fstream>

#include "conformance/behaviour.hpp"
#include "conformance/device_buffer.hpp"
#include "conformance/stray_processes.hpp"
#include "conformance/subject.hpp"
#include "mortise/ext/sequences.h"
#include "mortise/struct_sizes.h"

namespace mortise::conformance {
namespace {

std::size_t count_entries(const char* folder) {
  DIR* const open = ::opendir(folder);
  std::size_t count = 0;
  while (::readdir(open) != nullptr) ++count;
  ::closedir(open);
  return count;
}

std::size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

void expect_clean(Part& part) {
  expect(part.host().allocated_bytes() == 0, "{} bytes of the host's memory are not freed by destroy",
         part.host().allocated_bytes());
  const auto breaches = part.host().breaches();
  expect(breaches.empty(), "{}", fmt::join(breaches, "; "));
}

void newer_host_changes_nothing(Subject& subject) {
  PartSetup setup = subject.setup();
  setup.create_size = sizeof(mortise_create_args) + 96;
  const auto part = subject.make(std::move(setup));
}

void older_host_is_served_or_refused(Subject& subject) {
  PartSetup setup = subject.setup();
  setup.create_size = MORTISE_SIZE_0_5(mortise_create_args);
  const Part part(subject.component(), std::move(setup));  // reads beyond the struct end at a guard page
}

void is_destroyed_without_being_used(Subject& subject) {
  const auto part = subject.make();
  part->destroy();
  expect_clean(*part);
}

void frees_what_activate_allocates(Subject& subject) {
  const auto part = subject.make_active();
  const std::uint64_t active = part->host().allocated_bytes();
  for (int i = 0; i < 3; ++i) {
    part->deactivate();
    const Answer answer = part->activate(usual_sizes());
    expect(answer.ok(), "activate after deactivate fails: {}", answer.text());
    expect(part->host().allocated_bytes() <= active, "each activate holds more of the host's memory than the last");
  }
  part->destroy();
  expect_clean(*part);
}

void takes_any_sizes(Subject& subject) {
  for (const std::int32_t n : {1, 2, 333}) {
    const auto part = subject.make_active();
    part->deactivate();
    mortise_activate_args sizes = usual_sizes();
    sizes.max_num_seqs = sizes.max_batched_tokens = sizes.max_logit_rows = n;
    const Answer answer = part->activate(sizes);
    expect(answer.ok() || answer.status == MORTISE_RESOURCE_EXHAUSTED, "activate for {} sequences fails: {}", n,
           answer.text());
  }
}

void memory_does_not_grow(Subject& subject) {
  const auto live = [&] {
    const auto part = subject.make_active();
    part->destroy();
  };
  // A model reads its checkpoint each time, so this takes long. But what it would leave behind is large, too.
  const bool is_large = subject.component().kind == PartKind::kModel;
  const int warm_up = is_large ? 5 : 150;  // instances until the suite itself takes no new memory (guarded_memory)
  for (int i = 0; i < warm_up; ++i) live();
  ::malloc_trim(0);
  const std::size_t before = resident_kib();
  const int rounds = subject.rounds(is_large ? 10 : 200);
  for (int i = 0; i < rounds; ++i) live();
  ::malloc_trim(0);
  const std::size_t now = resident_kib();
  const auto allowed = static_cast<std::size_t>(rounds) / 4 + 1024;  // KiB: a quarter for each instance, and noise
  expect(now < before + allowed, "{} instances leave {} KiB of memory behind", rounds, now - before);
}

void leaves_no_threads_or_files(Subject& subject) {
  subject.setup();  // first opens what the host needs for the part, so that the counts below include it
  const bool may_have_threads = subject.component().kind == PartKind::kDevice;  // its thread pool
  std::size_t threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
  const std::set<pid_t> processes = child_processes();
  for (int i = 0; i < 3; ++i) {
    const auto part = subject.make_active();
    const std::size_t now = count_entries("/proc/self/task");
    expect(may_have_threads || now <= threads, "the instance starts {} threads; use ext/parallel.h", now - threads);
    const bool has_driver = may_have_threads && !has_host_memory(DeviceAccess(*part));
    part->destroy();
    // The driver of a GPU keeps threads and files of its own to the end of the process. Later instances add none.
    if (i == 0 && has_driver) {
      threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
    }
  }
  expect(count_entries("/proc/self/task") <= threads, "threads still run after destroy");
  expect(count_entries("/proc/self/fd") <= files, "files are still open after destroy");
  expect(child_processes() == processes, "a process that it has started is left after destroy");
}

void survives_without_host_memory(Subject& subject) {
  subject.make_active();  // with memory the part starts
  for (std::int64_t from = 0; from < 100; ++from) {
    PartSetup setup = subject.setup();
    setup.refuse_memory_from = from;
    Part part(subject.component(), std::move(setup));
    Answer answer = part.created();
    if (answer.ok()) answer = subject.bind(part);
    if (answer.ok()) answer = part.activate(usual_sizes());
    expect(answer.ok() || answer.status == MORTISE_RESOURCE_EXHAUSTED,
           "without memory, create, bind or activate must fail with RESOURCE_EXHAUSTED: {}", answer.text());
    part.destroy();
    expect_clean(part);
    if (part.host().num_allocations() <= from) return;  // the part asked for no more memory
  }
}

void keeps_the_float_environment(Subject& subject) {
  const auto part = subject.make_active();
  for (const int mode : {FE_TONEAREST, FE_UPWARD}) {
    std::fesetround(mode);
    try {
      behaviour(subject, *part, 1);
    } catch (const NotApplicable&) {  // create and activate have run all the same
    }
    const int now = std::fegetround();
    std::fesetround(FE_TONEAREST);
    expect(now == mode, "a call changes the rounding mode of floating-point numbers");
  }
}

void says_how_many_sequences_it_has(Subject& subject) {
  const auto part = subject.make_active();
  const auto* const table = static_cast<const mortise_sequences_table*>(part->get_ext(MORTISE_EXT_SEQUENCES));
  if (table == nullptr) throw NotApplicable("it has no extension " MORTISE_EXT_SEQUENCES);
  expect(table->num_sequences(part->handle<void>()) == 0, "a new instance has {} sequences",
         table->num_sequences(part->handle<void>()));
  behaviour(subject, *part, 3);
  expect(table->num_sequences(part->handle<void>()) == 0, "all sequences have ended, but state of {} is kept",
         table->num_sequences(part->handle<void>()));
}

constexpr Case kLifeCases[] = {
    {"life.newer_host", "create reads only the fields that the plugin knows of a larger struct.", kOfAll,
     newer_host_changes_nothing},
    {"life.older_host", "create reads nothing beyond the struct of an older host.", kOfAll,
     older_host_is_served_or_refused},
    {"life.unused", "An instance that is never activated frees all that it holds.", kOfAll,
     is_destroyed_without_being_used},
    {"life.reactivated", "deactivate frees what activate allocates, and activate may follow.", kOfAll,
     frees_what_activate_allocates},
    {"life.sizes", "activate accepts small sizes, and refuses sizes only for lack of memory.", kOfAll, takes_any_sizes},
    {"life.memory", "Creating and destroying instances does not use more and more memory.", kOfAll,
     memory_does_not_grow},
    {"life.threads", "An instance starts no threads, and leaves no thread, no open file and no process behind.", kOfAll,
     leaves_no_threads_or_files},
    {"life.no_memory", "When the host has no memory, calls fail with RESOURCE_EXHAUSTED and nothing leaks.", kOfAll,
     survives_without_host_memory},
    {"life.float_environment", "Calls leave the rounding mode of floating-point numbers as it is.", kOfAll,
     keeps_the_float_environment},
    {"life.sequences", "When all sequences have ended, no state of a sequence is left.", kOfScheduler | kOfProposer,
     says_how_many_sequences_it_has},
};

}  // namespace

std::span<const Case> life_cases() {
  return kLifeCases;
}

}  // namespace mortise::conformance
