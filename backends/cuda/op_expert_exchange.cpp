// Tokens that travel to their experts, and back: rows are packed by where they go to.
#include <algorithm>
#include <string>

#include "kernels/expert_exchange.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

class ExchangeWriter {
 public:
  explicit ExchangeWriter(OpWriter& writer) : writer_(writer) {}

  // `slots`: rows of the buffer.
  Status begin(std::int64_t slots) {
    const Node& node = writer_.call.node;
    const std::vector<std::int64_t> destinations = node.integers("destinations");
    const std::int64_t last = destinations.empty() ? -1 : *std::ranges::max_element(destinations);
    if (destinations.empty() || std::ssize(destinations) > ExchangeArguments::kMaxExperts ||
        last >= ExchangeArguments::kMaxRanks)
      return bad_input("cuda has a kernel for at most " + std::to_string(ExchangeArguments::kMaxExperts) +
                       " experts on " + std::to_string(ExchangeArguments::kMaxRanks) + " ranks");
    const std::pair<const char*, View*> named[] = {
        {"rows", &a_.rows}, {"indices", &a_.indices}, {"weights", &a_.weights}};
    if (Status status = writer_.view_in_rows(named, reads_); !status) return status;
    std::ranges::transform(destinations, a_.destinations, [](std::int64_t rank) { return static_cast<uint8_t>(rank); });
    const TensorType& indices = writer_.operand("indices")->type;
    a_.copies = indices.elements();
    a_.of_token = indices.shape[1];
    a_.ranks = last + 1;
    a_.capacity = slots / a_.ranks;
    const Range slots_of = numbers(a_.copies, a_.slots), copies_of = numbers(slots, a_.copies_of);
    std::vector<Range> reads = reads_, writes{slots_of, copies_of};
    a_.fault = writer_.fault(reads, writes);
    writer_.launch(KernelId::exchange_slots, a_, a_.ranks, std::move(reads), std::move(writes));
    a_.fault = nullptr;
    reads_.push_back(slots_of);
    reads_.push_back(copies_of);
    return Done{};
  }

  void set_width(std::int64_t width) { a_.width = width; }

  Status write(KernelId kernel, const Seen& result, const Seen* experts = nullptr) {
    std::vector<Range> writes{result.range()};
    const Result<View> made = view_for(result, {});
    if (!made) return made.error();
    a_.result = *made;
    if (experts != nullptr) {
      const Result<View> view = view_for(*experts, {});
      if (!view) return view.error();
      a_.experts = *view;
      writes.push_back(experts->range());
    }
    writer_.launch(kernel, a_, result.type.elements(), reads_, std::move(writes));
    return Done{};
  }

 private:
  Range numbers(std::int64_t count, std::int64_t*& memory) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(std::int64_t);
    std::byte* const taken = writer_.scratch(bytes);
    memory = reinterpret_cast<std::int64_t*>(taken);
    return {taken, bytes};
  }

  OpWriter& writer_;
  ExchangeArguments a_;
  std::vector<Range> reads_;
};

// The rows, and of each of them its expert and its weight.
Status write_dispatch(OpWriter& writer) {
  ExchangeWriter exchange(writer);
  const std::int64_t width = writer.operands[0].type.shape[1];
  exchange.set_width(width);
  if (Status status = exchange.begin(writer.results[0].type.elements() / width); !status) return status;
  const Seen* experts = writer.results.size() > 1 ? &writer.results[1] : nullptr;
  if (Status status = exchange.write(KernelId::exchange_dispatch, writer.results[0], experts); !status) return status;
  return writer.results.size() > 2 ? exchange.write(KernelId::exchange_numbers, writer.results[2]) : Status(Done{});
}

Status write_combine(OpWriter& writer) {
  ExchangeWriter exchange(writer);
  const std::int64_t width = writer.results[0].type.shape[1];
  exchange.set_width(width);
  if (Status status = exchange.begin(writer.operands[0].type.elements() / width); !status) return status;
  return exchange.write(KernelId::exchange_combine, writer.results[0]);
}

Status write_collect(OpWriter& writer) {
  ExchangeWriter exchange(writer);
  if (Status status = exchange.begin(writer.operands[0].type.elements()); !status) return status;
  return exchange.write(KernelId::exchange_collect, writer.results[0]);
}

}  // namespace

WriteOp expert_exchange_op(std::string_view op) {
  if (op == "meshwright.experts_dispatch") return write_dispatch;
  if (op == "meshwright.experts_combine") return write_combine;
  return op == "meshwright.experts_collect" ? write_collect : nullptr;
}

}  // namespace meshwright::cuda
