// Tensors that are filled with what is drawn. Their operand gives a shape, or probabilities.
#include <optional>
#include <string>

#include "kernels/draws.h"
#include "op_writer.h"
#include "random_stream.h"

namespace meshwright::cuda {

namespace {

// Nothing: it draws nothing, or has no operand.
std::optional<DrawArguments> draw_of(const Node& node) {
  const std::string& op = node.op;
  DrawArguments a;
  const auto as = [&](Draw kind, double low, double high) {
    a.kind = kind;
    a.low = low;
    a.high = high;
    return std::optional(a);
  };
  if (op == "aten.rand_like") return as(Draw::uniform, 0, 1);
  if (op == "aten.randn_like") return as(Draw::normal, 0, 1);
  if (op == "aten.uniform") return as(Draw::uniform, node.number("from", 0), node.number("to", 1));
  if (op == "aten.normal_functional") return as(Draw::normal, node.number("mean", 0), node.number("std", 1));
  if (op == "aten.exponential") return as(Draw::exponential, node.number("lambd", 1), 0);
  if (op == "aten.bernoulli.p") return as(Draw::bernoulli, node.number("p", 0.5), 0);
  return op == "aten.bernoulli" ? as(Draw::bernoulli_of_each, 0, 0) : std::nullopt;
}

Status write_draw(OpWriter& writer) {
  DrawArguments a = *draw_of(writer.call.node);
  const Seen& result = writer.results[0];
  const Result<Shard> elements = shard_of(writer.call.node, "elements", result.type.elements());
  const Result<View> made = view_for(result, {});
  if (!elements) return elements.error();
  if (!made) return made.error();
  a.key = RandomStream(writer.call.node).key();
  a.elements = *elements;
  a.result = *made;
  std::vector<Range> reads;
  if (a.kind == Draw::bernoulli_of_each) {
    const Result<Seen> given = writer.in_rows(writer.operands[0]);
    if (!given) return given.error();
    const Result<View> probabilities = view_for(*given, {});
    if (!probabilities) return probabilities.error();
    a.probabilities = *probabilities;
    reads.push_back(given->range());
  }
  writer.launch(KernelId::draw, a, result.type.elements(), std::move(reads), {result.range()});
  return Done{};
}

}  // namespace

WriteOp draw_op(std::string_view op) {
  Node node;
  node.op = op;
  return draw_of(node) ? write_draw : nullptr;
}

}  // namespace meshwright::cuda
