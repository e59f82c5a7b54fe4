// tests/unit/loader/plugins/bad_symbols.cpp: files whose symbols are wrong; a macro picks what. None of them is ever
// asked for its module.
#include "mortise/plugin.h"

#if defined(WRONG_MAJOR)
extern "C" MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v7() {
  return nullptr;
}
#elif !defined(NO_ENTRY)
extern "C" MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args*) {
  return nullptr;
}
#endif

#if defined(EXTRA_SYMBOLS) || defined(NO_ENTRY)
extern "C" MORTISE_EXPORT int helper_that_should_be_hidden() {
  return 1;
}
#endif

#if defined(UNIQUE_SYMBOL) && defined(__clang__)
// clang makes no GNU unique symbols; its assembler does.
asm(".data\n"
    ".globl unique_counter\n"
    ".type unique_counter, @gnu_unique_object\n"
    ".size unique_counter, 4\n"
    "unique_counter: .long 0\n"
    ".text\n");
#elif defined(UNIQUE_SYMBOL)
// A static of an inline function that is visible: g++ makes it GNU unique unless told otherwise.
struct __attribute__((visibility("default"))) Shared {
  static int& counter() {
    static int count = 0;
    return count;
  }
};
extern "C" int use_shared() {
  return ++Shared::counter();
}
#endif

#if defined(UNDEFINED_SYMBOL)
extern "C" int function_that_nobody_defines();
extern "C" int use_undefined() {
  return function_that_nobody_defines();
}
int used_at_load = use_undefined();
#endif
