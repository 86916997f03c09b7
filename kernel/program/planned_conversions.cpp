#include "program/planned_conversions.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

namespace {

constexpr double kRounding = 1e-6;  // of seconds: each is rounded to the clock's ticks by itself

class ConversionChecker {
 public:
  ConversionChecker(const Plan& plan, const AtomizedGraph& atoms, const std::map<std::string, ValueId, std::less<>>& values)
      : plan_(plan), atoms_(atoms), values_(values) {}

  Status check(const PlannedConversion& conversion) const {
    const auto found = values_.find(conversion.value);
    if (found == values_.end()) return bad_input("the graph has no such value");
    if (Status status = check_ends(conversion); !status) return status;
    return check_moves(conversion, found->second);
  }

 private:
  static const PlannedPort* find_port(const std::vector<PlannedPort>& ports, const std::string& value) {
    const auto found = std::ranges::find(ports, value, &PlannedPort::value);
    return found == ports.end() ? nullptr : &*found;
  }

  // It joins the result of its maker with the operand of its user.
  Status check_ends(const PlannedConversion& conversion) const {
    const PlannedVariable& maker = plan_.variables[conversion.backward ? conversion.to : conversion.from];
    const PlannedVariable& user = plan_.variables[conversion.backward ? conversion.from : conversion.to];
    const PlannedPort* made = find_port(maker.results, conversion.value);
    if (made == nullptr) return bad_input("'" + maker.name + "' does not make it");
    if (conversion.to_port >= user.operands.size() || user.operands[conversion.to_port].value != conversion.value) {
      return bad_input("it is not operand " + std::to_string(conversion.to_port) + " of '" + user.name + "'");
    }
    const PlannedPort& used = user.operands[conversion.to_port];
    const std::string& source = conversion.backward ? used.gradient_layout : made->layout;
    const std::string& target = conversion.backward ? made->gradient_layout : used.layout;
    if (conversion.source_layout != source) return bad_input("it is said to begin as " + conversion.source_layout + ", and lies as " + source);
    if (conversion.target_layout != target) return bad_input("it is said to end as " + conversion.target_layout + ", and is wanted as " + target);
    if (conversion.hides == (maker.kind == VariableKind::parameter)) return Done{};
    return bad_input(conversion.hides ? "it is no parameter, and is said to travel beside the computing"
                                      : "it is a parameter, and is said to travel in line");
  }

  Status check_moves(const PlannedConversion& conversion, ValueId value) const {
    const AtomShape& shape = atoms_.values[value];
    const DType dtype = plan_.graph->type(value).dtype;
    const std::int64_t element_bytes = conversion.hides && conversion.backward ? plan_.training.gradient_bytes(dtype) : size_bytes(dtype);
    const std::string* here = &conversion.source_layout;
    double seconds = 0;
    for (const PlannedMove& move : conversion.moves) {
      const Result<Layout> before = layout(*here, shape), after = layout(move.layout, shape);
      if (!before) return before.error();
      if (!after) return after.error();
      const std::int64_t bytes = local_elements(*before, shape, plan_.mesh) * element_bytes;
      if (move.bytes != bytes) {
        return bad_input("its move from " + *here + " to " + move.layout + " is said to take " + std::to_string(move.bytes) + " bytes, and has " +
                         std::to_string(bytes));
      }
      seconds += move.seconds;
      here = &move.layout;
    }
    if (*here != conversion.target_layout) {
      return bad_input("its moves end in " + *here + ", and it is said to end in " + conversion.target_layout);
    }
    if (std::abs(seconds - conversion.seconds) <= kRounding * std::max(seconds, conversion.seconds)) return Done{};
    return bad_input("its moves take " + std::to_string(seconds) + " s, and it is said to take " + std::to_string(conversion.seconds) + " s");
  }

  Result<Layout> layout(const std::string& text, const AtomShape& shape) const {
    Result<Layout> read = parse_layout(text, shape, plan_.mesh.rank());
    if (read && !fits(*read, shape, plan_.mesh)) return bad_input("it cannot lie as " + text + " on a mesh " + to_string(plan_.mesh));
    return read;
  }

  const Plan& plan_;
  const AtomizedGraph& atoms_;
  const std::map<std::string, ValueId, std::less<>>& values_;
};

}  // namespace

Status check_conversions(const Plan& plan, const AtomizedGraph& atoms, const std::map<std::string, ValueId, std::less<>>& values) {
  const ConversionChecker checker(plan, atoms, values);
  for (const PlannedConversion& conversion : plan.conversions) {
    if (Status status = checker.check(conversion); !status) return add_context("the plan's conversion of '" + conversion.value + "'", status.error());
  }
  return Done{};
}

}  // namespace meshwright
