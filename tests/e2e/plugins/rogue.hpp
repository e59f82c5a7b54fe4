// tests/e2e/plugins/rogue.hpp: what the rogue parts do wrong, as their options say.
#pragma once

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "mortise/plugin.hpp"

namespace rogue {

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "in": {"title": "the function that does it", "type": "string", "default": ""},
    "does": {"title": "what it does", "default": "throw",
             "enum": ["throw", "internal", "unavailable", "exhausted", "exit", "quick_exit", "abort", "crash", "terminate", "wait"]},
    "after": {"title": "calls of the function that go well before", "type": "integer", "default": 0},
    "times": {"title": "calls of the function that go wrong", "type": "integer", "default": 1000000},
    "calls": {"title": "a file that gets a line for each call after the first wrong one", "type": "string", "format": "path", "default": ""},
    "gate": {"title": "a file that `wait` waits for", "type": "string", "format": "path", "default": ""},
    "max_tokens": {"title": "drafts of a step, at most", "type": "integer", "default": 3}
  }
})";

class Misdeed {
 public:
  explicit Misdeed(const mortise::Options& options)
      : in_(options.get<std::string>("in")),
        does_(options.get<std::string>("does")),
        calls_(options.get<std::string>("calls")),
        gate_(options.get<std::string>("gate")),
        after_(options.get<int>("after")),
        times_(options.get<int>("times")) {}

  // At the beginning of each function. What it throws crosses the ABI.
  mortise_status commit(const char* function, mortise_error* error) {
    if (done_ && !calls_.empty()) std::ofstream(calls_, std::ios::app) << function << '\n';
    if (in_ != function || after_-- > 0 || times_-- <= 0) return MORTISE_OK;
    done_ = true;
    const std::string text = "what a rogue says";
    if (does_ == "throw") throw std::runtime_error(text);
    if (does_ == "internal") return mortise::set_error(error, MORTISE_INTERNAL, function, text);
    if (does_ == "unavailable") return mortise::set_error(error, MORTISE_UNAVAILABLE, function, text);
    if (does_ == "exhausted") return mortise::set_error(error, MORTISE_RESOURCE_EXHAUSTED, function, text);
    if (does_ == "exit") std::exit(0);
    if (does_ == "quick_exit") std::quick_exit(0);
    if (does_ == "abort") std::abort();
    if (does_ == "terminate") std::terminate();
    if (does_ == "crash") *static_cast<volatile int*>(nullptr) = 1;
    while (does_ == "wait" && !std::ifstream(gate_)) std::this_thread::yield();
    return MORTISE_OK;
  }

 private:
  const std::string in_, does_, calls_, gate_;
  int after_, times_;
  bool done_ = false;
};

}  // namespace rogue
