#include "cli/ordered_lines.hpp"

#include <deque>
#include <istream>
#include <ostream>

#include "error.hpp"

namespace mortise {

std::size_t run_ordered_lines(std::istream& in, std::ostream& out, std::size_t max_in_flight, const StartLine& start) {
  std::deque<std::future<LineResult>> open;
  std::size_t num_failed = 0;
  const auto write_first = [&] {
    const LineResult result = open.front().get();
    open.pop_front();
    num_failed += result.failed ? 1 : 0;
    out << result.text << '\n';
    out.flush();  // what is done stays done when the process dies
    if (!out) fail("the output cannot be written; is the disk full?");
  };
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (open.size() == max_in_flight) write_first();
    open.push_back(start(number, line));
  }
  while (!open.empty()) write_first();
  return num_failed;
}

}  // namespace mortise
