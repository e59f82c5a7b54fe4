// runtime/server/cors.hpp: the pages of other origins that may read answers in a browser (Fetch standard, "CORS
// protocol").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http.hpp"

namespace mortise {

// The origins whose pages may read answers. Constant, so any thread may use it.
class Cors {
 public:
  explicit Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {}
  // Whether pages of this origin may read answers.
  bool allows(std::string_view origin) const;
  // Adds the headers that let the page of `origin` read an answer. Adds nothing if it may not.
  void add_headers(std::string_view origin, HeaderList& headers) const;
  // The answer to OPTIONS, which says what the page may send. `methods` are those of the path.
  HttpAnswer preflight(std::string_view origin, std::string_view asked_headers, const std::string& methods) const;

 private:
  const std::vector<std::string> origins_;
};

}  // namespace mortise
