// Serves the files of the page at /. The page reads /status and /v1/... as any client does, with an API key if one is
// needed.
#include "server/page_files.hpp"
#include "server/routes.hpp"

namespace mortise {
namespace {

const char* content_type(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

HttpAnswer file_answer(const PageFile& file) {
  return {.content_type = content_type(file.name),
          .body = std::string(file.content),
          .headers = {
              {"Cache-Control", "no-cache"},  // a server of another version has another page
              // The page runs and loads only these files, and no other site can show it in a frame.
              {"Content-Security-Policy",
               "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"},
              {"X-Content-Type-Options", "nosniff"},
              {"Referrer-Policy", "no-referrer"},
          }};
}

}  // namespace

void add_page_routes(Router& router) {
  for (const PageFile& file : page_files()) {
    router.add({.method = "GET",
                .path = file.name == "index.html" ? "/" : "/" + std::string(file.name),
                .access = Route::Access::kOpen,
                .cost = Route::Cost::kCheap,
                .handle = [&file](const auto& exchange) { exchange->answer(file_answer(file)); }});
  }
}

}  // namespace mortise
