#include "schedule_csv.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "foreign_text.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostShown = 40;                            // bytes of a cell in a message
constexpr std::uint64_t kMostEvents = 3 * kMostScheduleForwards;  // forwards, and backwards in two parts
constexpr std::uint32_t kMostPositions = kMostScheduleForwards;
constexpr const char* kExpected =
    "expected position, kind and microbatch, such as 0F0 (F forward, B backward, I its input gradient, W its weight "
    "gradient), nothing for idle time, (0F4;3B1)OVERLAP_F_B, or communication, such as 0SEND_F0 or 0UNSHARD";

// Kinds that are skipped.
constexpr std::string_view kWithMicrobatch[] = {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B"};
constexpr std::string_view kWithoutMicrobatch[] = {"UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};

struct Cell {
  PipelineEventKind kind = PipelineEventKind::forward;
  std::uint32_t position = 0;
  std::uint32_t microbatch = 0;
};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view unquoted(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.size() < 2 || cell.front() != '"' || cell.back() != '"') return cell;
  return trimmed(cell.substr(1, cell.size() - 2));
}

// What stands before the next `mark`, which `text` loses with the mark.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t end = std::min(text.find(mark), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// The number at the beginning of `text`, which loses it; the largest there is for one that is larger.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return std::nullopt;
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + digits, number);
  text.remove_prefix(digits);
  return failure == std::errc() ? number : std::numeric_limits<std::uint32_t>::max();
}

std::optional<PipelineEventKind> kind_of(std::string_view text) {
  using enum PipelineEventKind;
  for (const PipelineEventKind kind : {forward, backward, input_gradient, weight_gradient}) {
    if (text.size() == 1 && text.front() == letter(kind)) return kind;
  }
  return std::nullopt;
}

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  Result<PipelineSchedule> read() {
    while (!text_.empty()) {
      if (Status status = read_line(take_until(text_, '\n')); !status) return status.error();
    }
    while (!lines_.empty() && lines_.back().empty() && blank_[lines_.size() - 1]) lines_.pop_back();
    if (events_ == 0) return bad_input(where_ + ": has no events; each line is a stage's, such as 0F0,0F1,0B0,0B1");
    PipelineSchedule schedule;
    if (Status status = place(schedule); !status) return status.error();
    if (Status status = validate(schedule); !status) {
      return add_context(
          where_,
          bad_input("this order can't run: " + status.error().message +
                    "; stage 0 is the first line, event 0 the first cell that is no idle time and no communication"));
    }
    return schedule;
  }

 private:
  Error at(const std::string& what) const {
    return bad_input(where_ + ", line " + std::to_string(line_) + ", column " + std::to_string(column_) + ": " + what);
  }
  Error malformed(std::string_view cell) const {
    return at("'" + message_line(cell, kMostShown) + "' is no event; " + kExpected);
  }

  Status read_line(std::string_view line) {
    ++line_;
    column_ = 0;
    const bool blank = trimmed(line).empty();
    if (line_ > kMostScheduleStages) {
      if (blank) return Done{};
      return bad_input(where_ + ", line " + std::to_string(line_) + ": a schedule has at most " +
                       std::to_string(kMostScheduleStages) + " stages, a line each");
    }
    lines_.emplace_back();
    blank_.push_back(blank);
    while (!line.empty()) {
      ++column_;
      if (Status status = read_cell(unquoted(take_until(line, ','))); !status) return status;
    }
    return Done{};
  }

  Status read_cell(std::string_view cell) {
    if (!cell.starts_with('(')) return cell.empty() ? Status(Done{}) : read_event(cell);
    const std::size_t end = cell.find(')');
    if (end == std::string_view::npos || cell.substr(end + 1) != "OVERLAP_F_B") return malformed(cell);
    std::string_view events = cell.substr(1, end - 1);
    if (events.empty() || events.back() == ';') return malformed(cell);
    while (!events.empty()) {
      const std::string_view event = trimmed(take_until(events, ';'));
      if (Status status = read_event(event); !status) return status;
    }
    return Done{};
  }

  Status read_event(std::string_view text) {
    const std::string_view cell = text;
    const std::optional<std::uint32_t> position = take_number(text);
    const std::size_t letters = std::min(text.find_first_of("0123456789"), text.size());
    const std::string_view kind = text.substr(0, letters);
    text.remove_prefix(letters);
    const std::optional<std::uint32_t> microbatch = take_number(text);
    if (!position || !text.empty()) return malformed(cell);
    const auto is_in = [kind](const auto& kinds) { return std::ranges::find(kinds, kind) != std::end(kinds); };
    if (is_in(kWithMicrobatch) && microbatch) return Done{};
    if (is_in(kWithoutMicrobatch) && !microbatch) return Done{};
    const std::optional<PipelineEventKind> event = kind_of(kind);
    if (!event || !microbatch) return malformed(cell);
    if (*position >= kMostPositions)
      return at("position " + message_line(cell, kMostShown) + " is too large; at most " +
                std::to_string(kMostPositions) + " are possible, counted from 0");
    if (*microbatch >= kMostScheduleMicrobatches)
      return at("the microbatch of " + message_line(cell, kMostShown) + " is too large; at most " +
                std::to_string(kMostScheduleMicrobatches) + " are possible, counted from 0");
    if (++events_ > kMostEvents) return at("more than " + std::to_string(kMostEvents) + " events are no schedule");
    lines_.back().push_back({*event, *position, *microbatch});
    return note_line(*position);
  }

  // Every position is on one line.
  Status note_line(std::uint32_t position) {
    if (position >= line_of_.size()) line_of_.resize(std::size_t{position} + 1);
    std::size_t& line = line_of_[position];
    if (line == 0) line = line_;
    if (line == line_) return Done{};
    return at("position " + std::to_string(position) + " is on line " + std::to_string(line) +
              " too; all events of a position are one stage's, so put them on one line");
  }

  // The shape, the positions and the order.
  Status place(PipelineSchedule& schedule) const {
    std::vector<std::vector<std::uint32_t>> held(lines_.size());  // by stage, ascending
    std::vector<std::uint32_t> chunks(line_of_.size());           // by position
    for (std::uint32_t position = 0; position < line_of_.size(); ++position) {
      if (line_of_[position] == 0) {
        return bad_input(where_ + ": position " + std::to_string(position) + " is on no line, but " +
                         std::to_string(line_of_.size() - 1) + " is; they are numbered from 0 without gaps");
      }
      std::vector<std::uint32_t>& of_stage = held[line_of_[position] - 1];
      chunks[position] = static_cast<std::uint32_t>(of_stage.size());
      of_stage.push_back(position);
    }
    std::uint32_t most = 0;
    for (std::size_t stage = 0; stage < held.size(); ++stage) {
      if (held[stage].size() == held[0].size() && !held[stage].empty()) continue;
      return bad_input(where_ + ", line " + std::to_string(stage + 1) + ": has events of " +
                       std::to_string(held[stage].size()) + " positions, line 1 of " + std::to_string(held[0].size()) +
                       "; each line needs those of one at least, and all need as many");
    }
    for (const std::vector<Cell>& line : lines_) {
      for (const Cell& cell : line) most = std::max(most, cell.microbatch);
    }
    schedule.shape = {static_cast<std::uint32_t>(lines_.size()), static_cast<std::uint32_t>(held[0].size()), most + 1};
    if (Status status = validate(schedule.shape); !status) return add_context(where_, status.error());
    for (const std::vector<std::uint32_t>& of_stage : held)
      schedule.positions.insert(schedule.positions.end(), of_stage.begin(), of_stage.end());
    for (const std::vector<Cell>& line : lines_) {
      std::vector<PipelineEvent>& order = schedule.order.emplace_back();
      for (const Cell& cell : line) order.push_back({cell.kind, chunks[cell.position], cell.microbatch});
    }
    return Done{};
  }

  std::string_view text_;
  const std::string where_;
  std::size_t line_ = 0, column_ = 0;  // counted from 1
  std::uint64_t events_ = 0;
  std::vector<std::vector<Cell>> lines_;
  std::vector<bool> blank_;           // of each line
  std::vector<std::size_t> line_of_;  // by position; 0: none
};

}  // namespace

Result<PipelineSchedule> read_schedule_csv(std::string_view text, const std::string& where) {
  return CsvReader(text, where).read();
}

}  // namespace meshwright
