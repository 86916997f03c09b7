#include "strategy/gather_turns.h"

#include <algorithm>

#include "meshwright/gather_units.h"

namespace meshwright {

namespace {

// The units of a phase, and when the first parameter of each is computed with.
class Turns {
 public:
  explicit Turns(std::int32_t begin) : begin_(begin) {}

  void add(std::uint32_t unit, std::int32_t time) {
    const auto [turn, inserted] = at_.try_emplace(unit, time);
    turn->second = std::min(turn->second, time);
  }

  // A unit that is prefetched is gathered beside the one before; the first with its phase.
  [[nodiscard]] GatherTurn of(std::uint32_t unit) const {
    const auto here = at_.find(unit);
    if (here == at_.end()) return {};
    GatherTurn turn{here->second, begin_};
    for (const auto& [other, at] : at_) {
      if (other != unit && at <= turn.at) turn.ahead = std::max(turn.ahead, at);
    }
    return turn;
  }

 private:
  std::int32_t begin_;
  std::map<std::uint32_t, std::int32_t> at_;
};

}  // namespace

std::vector<UnitMember> unit_members(const Graph& graph, std::int64_t bucket_bytes, const std::function<bool(const Source&)>& takes) {
  std::vector<UnitMember> members;
  std::vector<NamedBytes> parameters;
  for (const Source& source : graph.sources) {
    if (!takes(source)) continue;
    const Value& value = graph.values[source.value];
    parameters.push_back({source.names.empty() ? value.name : source.names[0], value.type.bytes()});
    members.push_back({source.value, parameters.back().bytes, 0});
  }
  const std::vector<std::uint32_t> units = gather_units(parameters, bucket_bytes);
  for (std::size_t i = 0; i < units.size(); ++i) members[i].unit = units[i];
  return members;
}

std::map<std::uint32_t, GatherTurns> gather_turns(const ProblemInput& input, const Problem& problem, const VariableFlow& flow) {
  std::map<ValueId, std::uint32_t> variables;
  for (std::uint32_t i = 0; i < problem.variables.size(); ++i) {
    if (problem.variables[i].kind == VariableKind::parameter) variables[problem.variables[i].value] = i;
  }
  const std::vector<UnitMember> members =
      unit_members(input.graph(), input.profile.bucket_bytes, [&](const Source& source) { return variables.contains(source.value); });
  const auto count = static_cast<std::int32_t>(problem.variables.size());
  Turns forward(0), backward(count);
  for (const UnitMember& member : members) {
    const VariableFlow::Uses uses = flow.uses_of(variables.at(member.value));
    forward.add(member.unit, static_cast<std::int32_t>(uses.first));
    if (uses.first_saver != kNoId) backward.add(member.unit, 2 * count - 1 - static_cast<std::int32_t>(uses.last_saver));
  }
  std::map<std::uint32_t, GatherTurns> turns;
  for (const UnitMember& member : members) turns[variables.at(member.value)] = {forward.of(member.unit), backward.of(member.unit)};
  return turns;
}

}  // namespace meshwright
