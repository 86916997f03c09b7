#include <algorithm>
#include <cstdio>
#include <numeric>

#include "timeline_text.h"

namespace meshwright {

namespace {

constexpr std::size_t kLongest = 10;

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%10.3f", seconds * 1e3);
  return text;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

// What a row of the sums counts.
enum class Row : std::uint8_t { computing, moves, parameters };

Row row_of(const Instruction& instruction, const Span& span) {
  if (span.stream == Stream::parameters) return Row::parameters;
  return instruction.kind == InstructionKind::move ? Row::moves : Row::computing;
}

}  // namespace

std::string title(const Instruction& instruction) {
  if (instruction.kind == InstructionKind::compute) return instruction.op;
  if (instruction.kind != InstructionKind::move) return name(instruction.kind);
  return std::string(name(instruction.move.kind)) + " " + std::to_string(instruction.move.axis);
}

std::string timeline_text(const Program& program, const Timeline& timeline) {
  double sums[3][3] = {};
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    sums[static_cast<int>(row_of(instruction, timeline.spans[i]))][static_cast<int>(instruction.phase)] +=
        timeline.spans[i].seconds();
  }
  std::string text =
      "Step " + milliseconds(timeline.step_seconds) + " ms, simulated on mesh " + to_string(program.mesh) + "\n\n";
  text += padded("milliseconds", 28) + "   forward  backward    update       all\n";
  const char* titles[] = {"computing", "moves it waits for", "parameters' moves beside it"};
  for (int row = 0; row < 3; ++row) {
    text += padded(titles[row], 28);
    for (const double sum : sums[row]) text += milliseconds(sum);
    text += milliseconds(sums[row][0] + sums[row][1] + sums[row][2]) + "\n";
  }
  std::vector<std::size_t> order(timeline.spans.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return timeline.spans[a].seconds() > timeline.spans[b].seconds(); });
  text += "\nLongest instructions\n";
  for (std::size_t i = 0; i < std::min(kLongest, order.size()); ++i) {
    const Instruction& instruction = program.instructions[order[i]];
    const Span& span = timeline.spans[order[i]];
    if (span.seconds() <= 0) break;
    text += milliseconds(span.seconds()) + " ms  at" + milliseconds(span.start_seconds()) + "  " +
            padded(name(instruction.phase), 10) + padded(title(instruction), 28) + instruction.name + "\n";
  }
  return text;
}

}  // namespace meshwright
