#include "devices/cuda/cublaslt.hpp"

#include <dlfcn.h>

namespace mortise::cuda {
namespace {

struct Loaded {
  CublasLt functions;
  bool usable = false;
  std::string reason;

  Loaded() {
    // Looks in the linker's search path first, then in the toolkit's folder.
    void* library = nullptr;
    for (const char* file : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"}) {
      library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
      if (library != nullptr) break;
      if (reason.empty()) reason = dlerror();
    }
    if (library == nullptr) return;
#define MORTISE_LOOK_UP(name)                                                         \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (functions.name == nullptr) {                                                    \
    reason = "libcublasLt.so.13 has no " #name;                                       \
    return;                                                                           \
  }
    MORTISE_CUBLASLT_FUNCTIONS(MORTISE_LOOK_UP)
#undef MORTISE_LOOK_UP
    usable = true;
  }
};

}  // namespace

const CublasLt* load_cublaslt(std::string& reason) {
  static const Loaded loaded;
  reason = loaded.reason;
  return loaded.usable ? &loaded.functions : nullptr;
}

}  // namespace mortise::cuda
