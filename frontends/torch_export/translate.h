// Makes a Graph of an ExportedProgram: names become ids, unused inputs and nodes without effect go, tied weights become
// one Source, and what the planner cannot express is refused.
#pragma once

#include <unordered_set>

#include "archive.h"
#include "exported_program.h"
#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright::torch_export {

// `graph_name` names the graph. Errors: bad_input, one sentence that names the node or the value, without the file.
Result<Graph> translate(const ExportedProgram& program, const Archive& archive, const std::string& graph_name);

// The names of the values that an op with effect or an output uses.
std::unordered_set<std::string> used_values(const ExportedProgram& program);

// Errors: bad_input, naming the value: an open size, an unknown dtype, a size that is negative or too large.
Result<TensorType> type_of(const std::string& name, const ExportedTensor& tensor);

// "torch.ops.aten.view.default" -> "aten.view"
std::string op_name(const std::string& target);

// Refuses ops that write into an operand ("aten.add_.Tensor", "aten.mul.out"), operators that hold a graph, and
// what is no tensor operator at all.
Status check_target(const std::string& target);

// "L__self__,,Model;L__self___h,transformer.h.0,Block" -> "transformer.h.0"
std::string innermost_module(const std::string& module_stack);

}  // namespace meshwright::torch_export
