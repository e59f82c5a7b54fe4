// tests/unit/cli/test_command.hpp: runs the program as a user does.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "test_support.hpp"

namespace mortise::test {

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

// `arguments` is shell text after the program's name; `environment` stands before it ("A=1"); `input` is standard
// input.
inline Outcome run_program(const std::string& program, const std::string& arguments, const std::string& input = "",
                           const std::string& environment = "") {
  const TempFolder dir;
  const auto file = [&](const char* name) { return (dir.path() / name).string(); };
  write_text(file("in"), input);
  const std::string command =
      environment + " " + program + " " + arguments + " <" + file("in") + " >" + file("out") + " 2>" + file("err");
  const int status = std::system(command.c_str());
  const auto text = [&](const char* name) {
    const auto bytes = read_bytes(file(name));
    return std::string(bytes.begin(), bytes.end());
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("out"), text("err")};
}

// Mortise with the test plugins.
inline Outcome mortise_with_toys(const std::string& arguments, const std::string& input = "") {
  return run_program(MORTISE, arguments, input, "MORTISE_PLUGIN_PATH=" + (fs::path(TEST_PLUGIN_DIR) / "good").string());
}

// One line "mortise: ...", which is what every error is.
inline bool is_error_line(const std::string& text) {
  return text.starts_with("mortise: ") && text.find('\n') == text.size() - 1;
}

}  // namespace mortise::test
