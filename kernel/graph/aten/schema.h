// What PyTorch says of the arguments of the ops that Meshwright has families for: names, kinds, how many results
// (schemas.inc). The graph's vocabulary is ATen's, so this is a fact of the vocabulary, not of any family.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright::aten {

enum class Kind : std::uint8_t {
  tensor,
  tensors,
  integer,
  integers,
  number,
  numbers,
  scalar,
  truth,
  text,
  dtype,
  other,
};

struct Parameter {
  std::string_view name;
  Kind kind = Kind::other;
  bool required = false;  // a call without it is refused
  bool holes = false;     // of a list: elements may be absent
};

struct Schema {
  std::string_view op;
  std::vector<Parameter> parameters;
  std::size_t results = 1;
  bool listed = false;  // any number of results

  [[nodiscard]] const Parameter* find(std::string_view name) const;
};

// Null for an op that PyTorch does not have, or that no family serves.
const Schema* find_schema(std::string_view op);

// Holds the call's operands and attributes against the schema: names, kinds, what must be there, how many results.
// Errors: bad_input, without the node's name.
Status check_arguments(const Schema& schema, const Node& node);

}  // namespace meshwright::aten
