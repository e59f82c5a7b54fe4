// tests/unit/loader/plugins/lively.cpp: a scheduler that tells what happens to it, through the host's log extension of
// the test ("test.journal": a function that takes a line), and that fails where its option says.
#include <stdexcept>
#include <string>

#include "mortise/plugin.hpp"
#include "stub_tables.hpp"

namespace {

constexpr mortise_scheduler_table kTable = stub::scheduler_table();

struct Lively {
  const mortise_host* host;
  std::string fail_in;
  void* memory;

  void tell(const char* what) const {
    using Journal = void(const char*);
    if (const void* journal = host->get_ext(host, "test.journal")) {
      (*static_cast<Journal* const*>(journal))(what);
    }
  }
};

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  const mortise::Options options(mortise::known(args));
  const auto fail_in = options.get<std::string>("fail_in");
  if (fail_in == "create") return mortise::set_error(error, MORTISE_UNAVAILABLE, "toy", "no toy is\nplugged in");
  if (fail_in == "throw") throw std::runtime_error("thrown out of create");
  if (fail_in == "null") return MORTISE_OK;
  auto* lively = new Lively{host, fail_in, host->allocate(host, 1000, 256)};
  lively->tell("create");
  *instance = lively;
  return MORTISE_OK;
}

void destroy(void* instance) {
  auto* lively = static_cast<Lively*>(instance);
  lively->tell("destroy");
  lively->host->free(lively->host, lively->memory);
  delete lively;
}

mortise_status activate(void* instance, const mortise_activate_args*, mortise_error*) {
  auto* lively = static_cast<Lively*>(instance);
  lively->tell("activate");
  return lively->fail_in == "activate" ? MORTISE_RESOURCE_EXHAUSTED : MORTISE_OK;
}

void deactivate(void* instance) {
  auto* lively = static_cast<Lively*>(instance);
  lively->tell("deactivate");
  if (lively->fail_in == "deactivate") throw std::runtime_error("thrown out of deactivate");
}

constexpr mortise_component make() {
  mortise_component c = stub::component(
      MORTISE_KIND_SCHEDULER, "lively",
      R"({"type": "object", "properties": {"fail_in": {"title": "where to fail", "type": "string", "default": ""}}})",
      &kTable);
  c.create = create;
  c.destroy = destroy;
  c.activate = activate;
  c.deactivate = deactivate;
  return c;
}
constexpr mortise_component kLively = make();

}  // namespace

MORTISE_PLUGIN("test.lively", "Tests", "1.0.0", "Apache-2.0", &kLively)
