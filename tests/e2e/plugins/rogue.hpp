// tests/e2e/plugins/rogue.hpp: what the rogue parts do wrong, as their options say.
#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
             "enum": ["throw", "internal", "unavailable", "exhausted", "exit", "quick_exit", "abort", "crash", "terminate", "wait", "end", "hog", "overrun", "say", "spoil"]},
    "after": {"title": "calls of the function that go well before", "type": "integer", "default": 0},
    "times": {"title": "calls of the function that go wrong", "type": "integer", "default": 1000000},
    "calls": {"title": "a file that gets a line for each call after the first wrong one", "type": "string", "format": "path", "default": ""},
    "when": {"title": "a file without which nothing goes wrong", "type": "string", "format": "path", "default": ""},
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
        when_(options.has("when") ? options.get<std::string>("when") : ""),
        after_(options.get<int>("after")),
        times_(options.get<int>("times")) {}

  // At the beginning of each function. What it throws crosses the ABI.
  mortise_status commit(const char* function, mortise_error* error) {
    if (done_ && !calls_.empty()) std::ofstream(calls_, std::ios::app) << function << '\n';
    spoils_ = false;
    if (in_ != function || (!when_.empty() && !std::ifstream(when_))) return MORTISE_OK;
    if (after_-- > 0 || times_-- <= 0) return MORTISE_OK;
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
    if (does_ == "crash") {
      int* volatile nowhere = nullptr;
      *nowhere = 1;
    }
    if (does_ == "end") ::_exit(0);
    if (does_ == "hog") {
      for (int i = 0; i < 64; ++i) std::memset(new char[1 << 26], 1, 1 << 26);  // 4 GiB
    }
    if (does_ == "overrun") {
      auto* const block = static_cast<char*>(std::malloc(5000));
      auto* const next = static_cast<char*>(std::malloc(5000));
      for (char* volatile at = block; at < next; ++at) *at = 1;  // also what the allocator keeps between the two
      std::free(next);
    }
    if (does_ == "say") {
      std::puts("a rogue writes to standard output");
      std::fputs("a rogue has seen something odd\n", stderr);
      std::abort();
    }
    spoils_ = does_ == "spoil";
    while (does_ == "wait" && !std::ifstream(gate_)) std::this_thread::yield();
    return MORTISE_OK;
  }

  // The call that commit() was made in is to return something wrong.
  bool spoils() const { return spoils_; }

 private:
  const std::string in_, does_, calls_, gate_, when_;
  int after_, times_;
  bool done_ = false, spoils_ = false;
};

}  // namespace rogue
