// The text form of a program.
#include <cstdio>

#include "meshwright/program.h"

namespace meshwright {

namespace {

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  return text;
}

template <class T, class ToText>
std::string list_text(const std::vector<T>& items, ToText to_text) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ", " : "") + to_text(items[i]);
  return text + "]";
}

struct AttributeText {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
  std::string operator()(const std::vector<std::int64_t>& value) const {
    return list_text(value, [](std::int64_t item) { return std::to_string(item); });
  }
  std::string operator()(const std::vector<double>& value) const { return list_text(value, number_text); }
};

// "[0, 6 i0 + 3 i1]", where i0 is the rank's coordinate on axis 0.
std::string rank_text(const RankIntegers& integers) {
  std::string text = "[";
  for (std::size_t i = 0; i < integers.base.size(); ++i) {
    std::string item = integers.base[i] != 0 ? std::to_string(integers.base[i]) : "";
    for (std::size_t axis = 0; axis < integers.steps.size(); ++axis) {
      if (integers.steps[axis][i] == 0) continue;
      item += (item.empty() ? "" : " + ") + std::to_string(integers.steps[axis][i]) + " i" + std::to_string(axis);
    }
    text += (i > 0 ? ", " : "") + (item.empty() ? "0" : item);
  }
  return text + "]";
}

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {}

  std::string run() {
    line("program " + program_.name + " on a mesh " + to_string(program_.mesh));
    if (program_.order.microbatches > 1) line("order " + to_string(program_.order));
    for (const ProgramParameter& parameter : program_.parameters) line("parameter " + typed(parameter.value));
    for (const ProgramInput& input : program_.inputs) {
      static constexpr const char* kKinds[] = {"parameter", "buffer", "constant", "input"};
      if (input.microbatch > 0) continue;  // like that of the first one
      line(kKinds[static_cast<int>(input.kind)] + (" " + typed(input.value)));
    }
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (i == 0 || instruction.phase != program_.instructions[i - 1].phase) line(std::string(name(instruction.phase)) + ":");
      write(instruction);
    }
    for (const ProgramOutput& output : program_.outputs) {
      if (output.kind == OutputKind::loss && output.microbatch > 0) continue;
      const std::string kind = output.kind == OutputKind::loss              ? "loss "
                               : output.kind == OutputKind::buffer_mutation ? "buffer " + output.target + " = "
                                                                            : "output ";
      line(kind + program_.values[output.value].name);
    }
    return std::move(text_);
  }

 private:
  void line(const std::string& line) { text_ += line + "\n"; }

  // "x float32[4, 8] S0R": what one rank holds, and where it lies.
  [[nodiscard]] std::string typed(ProgramValueId id) const {
    const ShardedType& type = program_.type(id);
    return program_.values[id].name + " " + to_string(program_.local(id)) + " " + to_string(type.layout, type.atoms);
  }

  [[nodiscard]] std::string names(const Instruction& instruction) const {
    std::string text;
    for (const ProgramOperand& operand : instruction.operands) {
      text += (text.empty() ? "" : ", ") + (operand.name.empty() ? "" : operand.name + "=") + program_.values[operand.value].name;
    }
    return text;
  }

  void write(const Instruction& instruction) {
    std::string results;
    for (const ProgramValueId result : instruction.results) results += (results.empty() ? "" : ", ") + typed(result);
    std::string text = "  " + results + (results.empty() ? "" : " = ");
    switch (instruction.kind()) {
      case InstructionKind::compute: text += instruction.compute()->op + "(" + names(instruction) + ")" + attributes(*instruction.compute()); break;
      case InstructionKind::move: {
        const Move& move = *instruction.move();
        text += std::string(name(move.kind)) + "(" + names(instruction) + ") over " + axes_text(move);
        if (move.permutes_before || move.permutes_after) text += ", permuting";
        if (instruction.stream == Stream::communication) text += ", beside the computing";
        break;
      }
      case InstructionKind::update:
        text += program_.parameters[instruction.parameter].name + " = update(" + names(instruction) + ")";
        break;
      case InstructionKind::send:
      case InstructionKind::receive: {
        const Message& message = *instruction.message();
        const bool sends = instruction.kind() == InstructionKind::send;
        text += std::string(name(instruction.kind())) + "(" + (message.gradient ? "grad " : "") + message.value + ") " + (sends ? "to" : "from") + " stage " + std::to_string(sends ? message.to : message.from);
        break;
      }
      case InstructionKind::load_parameter: text += "load_parameter(" + instruction.name + ")"; break;
      default:
        text += std::string(name(instruction.kind())) + "(" + names(instruction) + ")";
        if (instruction.stream == Stream::communication) text += ", beside the computing";
        break;
    }
    line(text + waits(instruction) + when(instruction.when));
  }

  [[nodiscard]] std::string waits(const Instruction& instruction) const {
    std::string text;
    for (const ProgramValueId value : instruction.waits) text += (text.empty() ? ", behind " : ", ") + program_.values[value].name;
    return text;
  }

  static std::string when(When when) {
    switch (when) {
      case When::each: return "";
      case When::first: return "  [first microbatch]";
      case When::later: return "  [all but the first microbatch]";
      case When::earlier: return "  [all but the last microbatch]";
      case When::last: return "  [last microbatch]";
    }
    return "";
  }

  static std::string attributes(const Compute& compute) {
    std::string text;
    for (const auto& [key, value] : compute.attributes) text += (text.empty() ? "" : ", ") + key + "=" + std::visit(AttributeText{}, value);
    for (const auto& [key, value] : compute.rank_attributes) text += (text.empty() ? "" : ", ") + key + "=" + rank_text(value);
    return text.empty() ? "" : " {" + text + "}";
  }

  const Program& program_;
  std::string text_;
};

}  // namespace

std::string to_string(const Program& program) { return Writer(program).run(); }

}  // namespace meshwright
