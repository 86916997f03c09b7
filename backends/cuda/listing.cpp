#include "listing.h"

#include <algorithm>
#include <cstdint>

#include "chains.h"
#include "host_product.h"
#include "kernels/movement.h"

namespace meshwright::cuda {

namespace {

struct Line {
  std::string what;
  std::size_t read = 0, written = 0;
  std::int64_t multiplications = 0;
};

// What several name is counted once.
std::size_t bytes_of(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, [](const Range& range) { return range.begin; });
  std::size_t bytes = 0;
  const std::byte* end = nullptr;
  for (const Range& range : ranges) {
    const std::byte* const begin = std::max(range.begin, end);
    if (begin >= range.begin + range.bytes) continue;
    end = range.begin + range.bytes;
    bytes += static_cast<std::size_t>(end - begin);
  }
  return bytes;
}

Line line_of(const Launch& launch) {
  Line line{kernel(launch.kernel).name, bytes_of(launch.reads), bytes_of(launch.writes)};
  if (launch.kernel == KernelId::chain) {
    line.what += " of " + std::to_string(arguments_of(launch).links);
    const Touched touched = touched_by_compiled(launch);
    line.read = bytes_of(touched.reads);
    line.written = bytes_of(touched.writes);
  }
  // What it copies may lie far apart.
  if (launch.kernel == KernelId::copy) line.read = line.written = std::min(line.read, line.written);
  return line;
}
Line line_of(const Product& product) {
  const ProductShape& shape = product.shape;
  Line line = line_of(launch_of(product));
  line.what = "product of " + to_string(shape) + (shape.adds ? " with an addend" : "");
  line.multiplications = shape.batches * shape.m * shape.n * shape.k;
  return line;
}
Line line_of(const DnnCall& call) {
  std::vector<Range> reads, writes;
  const auto is_own = [&](const Range& range) {
    return range.begin >= call.workspace && range.begin < call.workspace + call.workspace_bytes;
  };
  for (const Launch& launch : call.kernels) {
    for (const Range& range : launch.reads) {
      if (!is_own(range)) reads.push_back(range);
    }
    for (const Range& range : launch.writes) {
      if (!is_own(range)) writes.push_back(range);
    }
  }
  return {"cuDNN: " + call.graph->name, bytes_of(reads), bytes_of(writes)};
}
Line line_of(const Fill& fill) { return {"zeros", 0, fill.bytes}; }
Line line_of(const Optimize& update) { return line_of(update.launch); }
Line line_of(const Collective& collective) {
  constexpr const char* kNames[] = {"all-reduce", "all-gather", "reduce-scatter"};
  const std::size_t bytes = collective.count * static_cast<std::size_t>(size_bytes(collective.dtype)),
                    all = bytes * collective.group.seats.size();
  return {kNames[static_cast<std::size_t>(collective.kind)],
          collective.kind == CollectiveKind::reduce_scatter ? all : bytes,
          collective.kind == CollectiveKind::all_gather ? all : bytes};
}
Line line_of(const Exchange& exchange) {
  Line line{"exchange"};
  for (const Exchange::Part& part : exchange.sends) line.read += part.bytes;
  for (const Exchange::Part& part : exchange.receives) line.written += part.bytes;
  return line;
}
Line line_of(const Record&) { return {}; }
Line line_of(const Await&) { return {}; }
Line line_of(const SlotEvent&) { return {}; }

void add_lines(const std::string& instruction, const std::vector<Command>& commands, std::string& listing) {
  for (const Command& command : commands) {
    const Line line = std::visit([](const auto& what) { return line_of(what); }, command.what);
    if (line.what.empty()) continue;
    listing += instruction + '\t' + std::to_string(command.stream) + '\t' + line.what + '\t' +
               std::to_string(line.read) + '\t' + std::to_string(line.written) + '\t' +
               std::to_string(line.multiplications) + '\n';
  }
}

}  // namespace

std::string listing_of(const Program& program, const std::vector<Occurrence>& steps, const RankStep& step) {
  std::string listing = "instruction\tstream\twhat\tbytes read\tbytes written\tmultiplications\n";
  for (std::size_t i = 0; i < step.commands.size(); ++i)
    add_lines(describe(program, steps[i]), step.commands[i], listing);
  add_lines("at the end", step.closing, listing);
  return listing;
}

}  // namespace meshwright::cuda
