// runtime/loader/process_end.hpp: a plugin that ends the process is named, and the process exits with a failure. Covers
// exit() and quick_exit(), abort() and std::terminate(), and the signals of crashes. Not covered: _exit() and the exit
// system call, after which no code of the process runs.
#pragma once

namespace mortise {

// Installs handlers for the rest of the process's life; for the start of main(). Builds with AddressSanitizer or
// ThreadSanitizer get no signal handlers: theirs tell more. A signal that already has a handler keeps it.
void name_plugins_that_end_the_process();

// main() is about to return: an exit() from now on is the program's own.
void expect_process_end();

}  // namespace mortise
