#include <algorithm>
#include <cstdio>

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
  if (span.stream == Stream::communication) return Row::parameters;
  return instruction.kind() == InstructionKind::move ? Row::moves : Row::computing;
}

// Of each instruction the first time that it runs, in the order of the program.
std::vector<Span> first_spans(const Program& program, const Timeline& timeline) {
  std::vector<Span> first;
  std::vector<bool> seen(program.instructions.size(), false);
  for (const Span& span : timeline.spans) {
    if (!seen[span.at.instruction]) first.push_back(span);
    seen[span.at.instruction] = true;
  }
  return first;
}

}  // namespace

std::string title(const Instruction& instruction) {
  if (const Compute* compute = instruction.compute()) return compute->op;
  if (const Move* move = instruction.move()) return std::string(name(move->kind)) + " " + short_axes_text(*move);
  return name(instruction.kind());
}

std::string timeline_text(const Program& program, const Timeline& timeline) {
  const std::vector<Span> spans = first_spans(program, timeline);
  double sums[3][3] = {};
  for (const Span& span : spans) {
    const Instruction& instruction = program.instructions[span.at.instruction];
    sums[static_cast<int>(row_of(instruction, span))][static_cast<int>(instruction.phase)] +=
        static_cast<double>(times(program, instruction)) * span.seconds();
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
  std::vector<Span> longest = spans;
  std::stable_sort(longest.begin(), longest.end(), [](const Span& a, const Span& b) { return a.ticks > b.ticks; });
  longest.resize(std::min(kLongest, longest.size()));
  text += "\nLongest instructions\n";
  for (const Span& span : longest) {
    const Instruction& instruction = program.instructions[span.at.instruction];
    if (span.ticks == 0) break;
    const std::int64_t often = times(program, instruction);
    text += milliseconds(span.seconds()) + " ms  at" + milliseconds(span.start_seconds()) + "  " +
            padded(name(instruction.phase), 10) + padded(title(instruction), 28) + instruction.name +
            (often > 1 ? ", " + std::to_string(often) + " times" : "") + "\n";
  }
  return text;
}

}  // namespace meshwright
