#include "check_call.h"

#include "call.h"
#include "schema.h"

namespace meshwright::aten {

namespace {

Status check_shapes(const Call& call) {
  const Result<std::optional<Shapes>> inferred = infer(call);
  if (!inferred) return inferred.error();
  if (!*inferred) return Done{};
  const Shapes& shapes = **inferred;
  if (call.results() > shapes.size()) {
    return bad_input("it gives " + std::to_string(shapes.size()) + " tensors, and the node has " +
                     std::to_string(call.results()));
  }
  for (std::size_t i = 0; i < call.results(); ++i) {
    if (call.result(i).shape == shapes[i]) continue;
    return bad_input("its result is written as " + text(call.result(i).shape) + ", and what it computes is " +
                     text(shapes[i]));
  }
  return Done{};
}

}  // namespace

Status check_call(const Graph& graph, const Node& node) {
  const Schema* schema = find_schema(node.op);
  if (schema == nullptr) return Done{};
  if (Status status = check_arguments(*schema, node); !status) return status;
  const Call call(graph, node);
  if (Status status = check_dtypes(call); !status) return status;
  return check_shapes(call);
}

}  // namespace meshwright::aten
