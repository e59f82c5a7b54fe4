#include "jsonl/ordered_lines.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "error.hpp"
#include "jsonl/lost_lines.hpp"

namespace mortise {
namespace {

constexpr int kTickMs = 100;

struct OpenLine {
  // The place of the result's text, as the thread of the run knows it.
  enum class Place { kMemory, kWaitingFile, kOutput };

  InputLine line;  // without its text
  std::size_t num_sequences = 0;
  bool ready = false;  // the result is complete; guarded by the Board
  Place place = Place::kMemory;
  LineResult result;
};

// The state that threads which finish lines share with the thread of the run. They keep it alive, because a line may be
// finished after the run has ended.
class Board {
 public:
  Board() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (event_ < 0) fail("no event descriptor: {}; raise the limit of open files (ulimit -n)", std::strerror(errno));
  }
  ~Board() { ::close(event_); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  void finish(const std::shared_ptr<OpenLine>& open, LineResult result) {
    const std::lock_guard lock(mutex_);
    open->result = std::move(result);
    open->ready = true;
    bytes_ += open->result.text.size();
    finished_.push_back(open);
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then the reader wakes anyway.
    if (::write(event_, &one, sizeof one) < 0) return;
  }
  bool is_ready(const OpenLine& open) const {
    const std::lock_guard lock(mutex_);
    return open.ready;
  }
  // The lines that were finished since the last call.
  std::vector<std::shared_ptr<OpenLine>> take_finished() {
    const std::lock_guard lock(mutex_);
    return std::exchange(finished_, {});
  }
  void add_bytes(std::size_t n) {
    const std::lock_guard lock(mutex_);
    bytes_ += n;
  }
  void drop_bytes(std::size_t n) {
    const std::lock_guard lock(mutex_);
    bytes_ -= n;
  }
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  // Waits until a line is finished, `in` (unless -1) can be read, a signal comes, or the next tick is due.
  void wait(int in) {
    pollfd events[2] = {{event_, POLLIN, 0}, {in, POLLIN, 0}};  // poll ignores -1
    ::poll(events, 2, kTickMs);
    std::uint64_t count;
    if (::read(event_, &count, sizeof count) < 0) return;
  }

 private:
  const int event_;
  mutable std::mutex mutex_;
  std::size_t bytes_ = 0;  // of lines at work and of finished results in memory
  std::vector<std::shared_ptr<OpenLine>> finished_;
};

// One run over all lines. Invariant: open_ has the lines that are read and not written, in their order. Used by one
// thread; results arrive on others through board_.
class Run {
 public:
  Run(InputLines& in, const OrderedLinesLimits& limits, const StartLine& start, const OrderedLinesEvents& events,
      WaitingLines* waiting)
      : in_(in), limits_(limits), start_(start), events_(events), waiting_(waiting) {}

  bool run() {
    while (true) {
      const bool stops = events_.tick();
      if (!stops && write_ready()) continue;
      keep_waiting();
      if (stops) return false;
      const bool reads = !input_ended_ && has_room();
      if (reads && read_line()) continue;
      if (input_ended_ && open_.empty()) return true;
      if (const auto number = lost_.first()) {
        fail(ErrorCode::kInternal, "line {}: its answer could not be produced", *number);
      }
      board_->wait(reads ? in_.fd() : -1);
    }
  }

 private:
  bool has_room() const {
    return open_.empty() || (num_sequences_ < limits_.max_sequences && board_->bytes() < limits_.max_bytes);
  }

  // Writes results that are next in order. Returns whether there were any.
  bool write_ready() {
    if (open_.empty() || !board_->is_ready(*open_.front())) return false;
    const std::shared_ptr<OpenLine> open = std::move(open_.front());
    open_.pop_front();
    num_sequences_ -= open->num_sequences;
    const OpenLine::Place place = std::exchange(open->place, OpenLine::Place::kOutput);
    board_->drop_bytes(open->line.num_bytes() + open->result.text.size());
    if (place == OpenLine::Place::kWaitingFile) open->result.text = waiting_->read(open->line.number).value();
    events_.write(open->line, std::move(open->result));
    if (waiting_ != nullptr) waiting_->drop_up_to(open->line.number);
    return true;
  }

  // Moves finished results that are not next in order from memory to the file.
  void keep_waiting() {
    for (const std::shared_ptr<OpenLine>& open : board_->take_finished()) {
      // Failed lines are not kept: they run again after an interruption, because the run itself may have been the
      // cause.
      if (waiting_ == nullptr || open->place == OpenLine::Place::kOutput || open->result.failed) continue;
      std::string& text = open->result.text;
      if (!waiting_->contains(open->line.number) && !waiting_->keep(open->line.number, text)) continue;
      open->place = OpenLine::Place::kWaitingFile;
      board_->drop_bytes(text.size());
      text = {};
    }
  }

  bool read_line() {
    InputLine line;
    const InputLines::Next next = in_.next(line);
    input_ended_ = next == InputLines::Next::kEnd;
    if (next != InputLines::Next::kLine) return input_ended_;
    const auto open = std::make_shared<OpenLine>();
    open_.push_back(open);
    board_->add_bytes(line.num_bytes());
    open->num_sequences =
        start_(line, lost_.watch([board = board_, open](LineResult result) { board->finish(open, std::move(result)); },
                                 line.number));
    num_sequences_ += open->num_sequences;
    line.text = {};
    open->line = std::move(line);
    return true;
  }

  InputLines& in_;
  const OrderedLinesLimits& limits_;
  const StartLine& start_;
  const OrderedLinesEvents& events_;
  WaitingLines* const waiting_;
  const std::shared_ptr<Board> board_ = std::make_shared<Board>();
  const LostLines lost_;
  std::deque<std::shared_ptr<OpenLine>> open_;
  std::size_t num_sequences_ = 0;
  bool input_ended_ = false;
};

}  // namespace

bool run_ordered_lines(InputLines& in, const OrderedLinesLimits& limits, const StartLine& start,
                       const OrderedLinesEvents& events, WaitingLines* waiting) {
  return Run(in, limits, start, events, waiting).run();
}

}  // namespace mortise
