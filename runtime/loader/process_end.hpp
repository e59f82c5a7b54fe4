// runtime/loader/process_end.hpp: if a plugin ends the process, its name is written to standard error, and the process
// exits with a failure. Covers exit() and quick_exit(), abort() and std::terminate(), and the signals of crashes. Not
// covered: _exit() and the exit system call, after which no code runs.
#pragma once

namespace mortise {

// Installs the handlers for the rest of the process's life. Call it at the start of main(). Builds with
// AddressSanitizer or ThreadSanitizer get no signal handlers, because those of the sanitizers report more. A signal
// that already has a handler keeps it.
void name_plugins_that_end_the_process();

// Call it when main() is about to return: from now on exit() is the program's own.
void expect_process_end();

}  // namespace mortise
