#include "op_groups.h"

#include <algorithm>
#include <ranges>
#include <set>

namespace meshwright::torch {

namespace {

using Values = std::set<ProgramValueId>;

bool reads_any(const Statement& statement, const Values& values) {
  return std::ranges::any_of(values_in(statement.text), [&](ProgramValueId value) { return values.contains(value); });
}

bool makes_any(const Statement& statement, const Values& values) {
  return std::ranges::any_of(statement.results, [&](ProgramValueId value) { return values.contains(value); });
}

OpGroup group_that_begins(NodeId begin, std::span<const Statement> statements, const Forward& forward) {
  Values made, of_ops, needed;  // made: not kept; of_ops: nor is what it is converted to
  const auto is_again = [&](ProgramValueId value) { return forward.made_again.contains(value); };
  for (const Statement& statement : statements) {
    if (statement.again == begin) {
      std::ranges::copy_if(statement.results, std::inserter(made, made.end()), is_again);
      if (!statement.converts) std::ranges::copy_if(statement.results, std::inserter(of_ops, of_ops.end()), is_again);
    } else if (statement.converts && reads_any(statement, of_ops)) {
      made.insert(statement.results.begin(), statement.results.end());
      of_ops.insert(statement.results.begin(), statement.results.end());
    }
  }
  std::ranges::set_intersection(made, forward.saved, std::inserter(needed, needed.end()));
  OpGroup group;
  for (std::size_t i = statements.size(); i-- > 0;) {
    const Statement& statement = statements[i];
    const bool converts = statement.converts && (!statement.settles || makes_any(statement, made));
    const bool brings = (converts || statement.loads) && makes_any(statement, needed);
    if (statement.again != begin && !brings) continue;
    group.statements.push_back(i);
    const std::vector<ProgramValueId> read = values_in(statement.text);
    needed.insert(read.begin(), read.end());
  }
  std::ranges::reverse(group.statements);
  std::vector<const Statement*> own;
  for (const std::size_t i : group.statements) own.push_back(&statements[i]);
  group.inputs = read_from_outside(own);
  Values read;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    if (std::ranges::binary_search(group.statements, i)) continue;
    const std::vector<ProgramValueId> here = values_in(statements[i].text);
    read.insert(here.begin(), here.end());
  }
  for (const Statement* statement : own) {
    std::ranges::copy_if(statement->results, std::back_inserter(group.results), [&](ProgramValueId value) { return made.contains(value) && read.contains(value); });
  }
  return group;
}

}  // namespace

std::vector<OpGroup> op_groups(std::span<const Statement> statements, const Forward& forward) {
  std::vector<NodeId> begins;
  for (const Statement& statement : statements) {
    if (statement.again != kNoId && std::ranges::find(begins, statement.again) == begins.end()) begins.push_back(statement.again);
  }
  std::vector<OpGroup> groups;
  for (const NodeId begin : begins) groups.push_back(group_that_begins(begin, statements, forward));
  return groups;
}

std::vector<ProgramValueId> read_from_outside(const std::vector<const Statement*>& statements) {
  Values known;
  std::vector<ProgramValueId> outside;
  for (const Statement* statement : statements) {
    for (const ProgramValueId value : values_in(statement->text)) {
      if (known.insert(value).second) outside.push_back(value);
    }
    known.insert(statement->results.begin(), statement->results.end());
  }
  return outside;
}

}  // namespace meshwright::torch
