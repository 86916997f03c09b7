// Dropout, whose backward is another one of the same stream.
#include "kernels/dropout.h"
#include "op_writer.h"
#include "random_stream.h"

namespace meshwright::cuda {

namespace {

Status write_dropout(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Result<Seen> input = writer.in_rows(writer.operands[0]);
  if (!input) return input.error();
  const Result<View> from = view_for(*input, {}), result = view_for(writer.results[0], {});
  const Result<Shard> elements = shard_of(node, "elements", input->type.elements());
  if (!from) return from.error();
  if (!result) return result.error();
  if (!elements) return elements.error();
  DropoutArguments arguments;
  arguments.key = RandomStream(node).key();
  arguments.probability = node.boolean("train", true) ? node.number("p", 0) : 0;
  arguments.scale = arguments.probability < 1 ? 1 / (1 - arguments.probability) : 0;
  arguments.elements = *elements;
  arguments.input = *from;
  arguments.result = *result;
  std::vector<Range> writes{writer.results[0].range()};
  if (writer.results.size() > 1) {
    const Result<View> mask = view_for(writer.results[1], {});
    if (!mask) return mask.error();
    arguments.mask = *mask;
    writes.push_back(writer.results[1].range());
  }
  writer.launch(KernelId::drop_out, arguments, input->type.elements(), {input->range()}, std::move(writes));
  return Done{};
}

}  // namespace

WriteOp dropout_op(std::string_view op) {
  return op == "aten.native_dropout" || op == "aten.dropout" ? write_dropout : nullptr;
}

}  // namespace meshwright::cuda
